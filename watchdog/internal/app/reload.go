package app

import (
	"reflect"
	"strings"

	"github.com/coreos/go-systemd/v22/daemon"

	"spillway/shared/logsetup"
	"spillway/watchdog/internal/config"
	"spillway/watchdog/internal/control"
)

// Reload reads the config again and takes over the policy and the log level.
// Nothing else is touched, the collector least of all. A config that cannot be
// used is refused and the old one stays in force.
func (a *App) Reload() {
	if a.load == nil {
		return
	}
	tellSupervisor(daemon.SdNotifyReloading)
	defer tellSupervisor(daemon.SdNotifyReady)
	next, err := a.load()
	if err != nil {
		a.log.WithError(err).Error("the new config is refused, the old one stays in force")
		a.say(control.EventReload, "the new config is refused, the old one stays in force: "+err.Error())
		return
	}
	a.loop.SetPolicy(next.Policy)
	a.prober.SetTimeout(next.Policy.Poll.Timeout)
	if err := logsetup.SetLevel(a.log, next.Log.Level); err != nil {
		a.log.WithError(err).Error("the log level stays as it was")
	}
	sentence := "the policy was read again and is in force"
	if rest := restartNeeded(a.cfg, next); len(rest) > 0 {
		sentence += "; changes of " + strings.Join(rest, ", ") + " wait for the next start of the watchdog"
	}
	a.say(control.EventReload, sentence)
}

// restartNeeded names the top-level keys whose changes a reload does not apply.
func restartNeeded(was, now config.Config) []string {
	now.Policy, now.Log.Level = was.Policy, was.Log.Level
	var keys []string
	a, b := reflect.ValueOf(was), reflect.ValueOf(now)
	for i := range a.NumField() {
		if !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			key, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("yaml"), ",")
			keys = append(keys, key)
		}
	}
	return keys
}
