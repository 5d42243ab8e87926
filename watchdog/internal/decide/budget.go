package decide

import (
	"fmt"
	"slices"
	"time"
)

// refillBudget gives back what time has given back.
func (t *turn) refillBudget() {
	b := &t.s.Budget
	for b.Tokens < t.p.Budget.Tokens && t.since(b.RefillAt) >= t.p.Budget.Refill {
		b.Tokens++
		b.RefillAt = b.RefillAt.Add(t.p.Budget.Refill)
	}
	if b.Tokens >= t.p.Budget.Tokens {
		b.Tokens, b.RefillAt = t.p.Budget.Tokens, t.now
	}
	b.Spent = slices.DeleteFunc(b.Spent, func(m Moment) bool { return !t.within(m, time.Hour) })
}

// spend pays for an action. It is part of the state that is saved before the
// action begins, so that a watchdog that dies and comes back again and again
// cannot act more often than one that lives.
func (t *turn) spend() {
	t.s.Budget.Tokens--
	t.s.Budget.Spent = append(t.s.Budget.Spent, t.now)
}

// refund gives back the token of an action that touched nothing.
func (t *turn) refund(a *Action) {
	if !a.Token {
		return
	}
	b := &t.s.Budget
	b.Tokens = min(b.Tokens+1, t.p.Budget.Tokens)
	if i := slices.Index(b.Spent, a.StartedAt); i >= 0 {
		b.Spent = slices.Delete(b.Spent, i, i+1)
	}
	a.Token = false
}

// afford objects to an act that would leave fewer than reserve tokens, and to
// more acts than an hour may see.
func afford(name string, reserve func(*turn) int) Guard {
	return Guard{"budget", func(t *turn) string {
		b, left := t.s.Budget, reserve(t)
		if len(b.Spent) >= t.p.Budget.PerHour {
			return fmt.Sprintf("%d acts within the last hour are as many as budget.per_hour allows; the next is possible in %s",
				len(b.Spent), length(time.Hour-t.since(b.Spent[0])))
		}
		if b.Tokens > left {
			return ""
		}
		wait := t.p.Budget.Refill*time.Duration(left+1-b.Tokens) - t.since(b.RefillAt)
		if left > 0 {
			return fmt.Sprintf("%s needs %d tokens so that one stays for a divert, the budget has %d; it will in %s",
				name, left+1, b.Tokens, length(wait))
		}
		return fmt.Sprintf("the budget is spent; the next token comes in %s", length(wait))
	}}
}

// Acts that protect may take the last token; those that can wait may not, nor a
// restart while the coordinator is lost.
func nothing(*turn) int   { return 0 }
func reserve(t *turn) int { return t.p.Budget.Reserve }
func heldReserve(t *turn) int {
	if t.standing(Held) {
		return t.p.Budget.Reserve
	}
	return 0
}

var (
	budgetDivert    = afford("a divert", nothing)
	budgetReturn    = afford("a return", reserve)
	budgetRestart   = afford("a restart while the coordinator is lost", heldReserve)
	budgetReconcile = afford("a restart that can wait", reserve)
)
