package decide_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spillway/watchdog/internal/decide"
)

var update = flag.Bool("update", false, "write the diagrams into docs/watchdog.md")

const page = "../../../docs/watchdog.md"

var regions = []decide.Region{decide.RegionMode, decide.RegionLiveness, decide.RegionAuthority, decide.RegionAction}

func regionEdges(r decide.Region) []decide.Edge {
	return slices.DeleteFunc(decide.Edges(), func(e decide.Edge) bool { return e.Region != r })
}

// mermaid draws a region: one arrow for each pair of phases, with the ids of the
// edges that lead from one to the other.
func mermaid(r decide.Region) string {
	var b strings.Builder
	b.WriteString("```mermaid\nstateDiagram-v2\n")
	phases := decide.Phases(r)
	fmt.Fprintf(&b, "    [*] --> %s\n", phases[0])
	for _, from := range phases {
		for _, to := range phases {
			var ids []string
			for _, e := range regionEdges(r) {
				if e.To == to && slices.Contains(e.From, from) && (from != to || r == decide.RegionAction) {
					ids = append(ids, e.ID)
				}
			}
			if len(ids) > 0 {
				fmt.Fprintf(&b, "    %s --> %s : %s\n", from, to, strings.Join(ids, " "))
			}
		}
	}
	b.WriteString("```\n")
	return b.String()
}

// table lists the rows of a region.
func table(r decide.Region) string {
	var b strings.Builder
	b.WriteString("| id | from | on | objections | to | meaning |\n|---|---|---|---|---|---|\n")
	for _, e := range regionEdges(r) {
		from := make([]string, len(e.From))
		for i, p := range e.From {
			from[i] = string(p)
		}
		if len(from) == len(decide.Phases(r)) {
			from = []string{"any"}
		}
		var guards []string
		for _, g := range e.Guards {
			guards = append(guards, g.Name)
		}
		to := string(e.To)
		if e.To == decide.Stay {
			to = "–"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", e.ID, strings.Join(from, ", "), e.On.Name, strings.Join(guards, ", "), to, e.Text)
	}
	return b.String()
}

func steps() string {
	var b strings.Builder
	b.WriteString("| step | does | twice does no harm, because | a watchdog that died here |\n|---|---|---|---|\n")
	for _, s := range decide.Steps() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Step, s.Does, s.Again, s.AfterDeath)
	}
	return b.String()
}

func TestPage_showsTheTableThatIsRun(t *testing.T) {
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := string(data)
	parts := map[string]string{"steps": steps()}
	for _, r := range regions {
		parts[string(r)] = mermaid(r) + "\n" + table(r)
	}
	for name, content := range parts {
		begin, end := fmt.Sprintf("<!-- begin generated: %s -->\n", name), fmt.Sprintf("<!-- end generated: %s -->\n", name)
		before, rest, ok := strings.Cut(want, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s has no place for %s", page, name)
		}
		want = before + begin + content + end + after
	}
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Errorf("docs/watchdog.md is not what the code does; run go test ./watchdog/internal/decide -run Page -update\n%s", diff)
	}
}

func TestEdges_areWellFormed(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range decide.Edges() {
		if seen[e.ID] {
			t.Errorf("%s stands twice", e.ID)
		}
		seen[e.ID] = true
		if e.Text == "" || e.On.Name == "" || len(e.From) == 0 {
			t.Errorf("%s is not explained", e.ID)
		}
		phases := decide.Phases(e.Region)
		for _, p := range append([]decide.Phase{}, e.From...) {
			if !slices.Contains(phases, p) {
				t.Errorf("%s comes from %s, which %s does not have", e.ID, p, e.Region)
			}
		}
		if e.To != decide.Stay && !slices.Contains(phases, e.To) {
			t.Errorf("%s leads to %s, which %s does not have", e.ID, e.To, e.Region)
		}
	}
}

func TestEdges_everyPhaseHasAnExitAndAnEntry(t *testing.T) {
	for _, r := range regions {
		for i, p := range decide.Phases(r) {
			exit, entry := false, i == 0
			for _, e := range regionEdges(r) {
				exit = exit || e.To != decide.Stay && e.To != p && slices.Contains(e.From, p)
				entry = entry || e.To == p && !slices.Equal(e.From, []decide.Phase{p})
			}
			if !exit || !entry {
				t.Errorf("%s/%s: exit %v, entry %v", r, p, exit, entry)
			}
		}
	}
}

func TestSteps_coverEveryPhaseOfTheAction(t *testing.T) {
	known := map[decide.Phase]bool{decide.Idle: true}
	for _, s := range decide.Steps() {
		known[decide.Phase(s.Step)] = true
		if s.Does == "" || s.Again == "" || s.AfterDeath == "" || !s.Ordered {
			t.Errorf("step %s is not explained", s.Step)
		}
	}
	for _, p := range decide.Phases(decide.RegionAction) {
		if !known[p] {
			t.Errorf("no step is called %s", p)
		}
	}
}
