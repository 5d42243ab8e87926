package docker

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"spillway/shared/rig/pair"
	"spillway/shared/rig/proc"
)

const user = 65532

// The pod must be let in where Pod Security says "restricted".
func TestPod_isRestricted(t *testing.T) {
	p := the(t, "StatefulSet", "spillway").Spec.Template.Spec
	if p.HostNetwork || p.HostPID || p.HostIPC {
		t.Error("the pod uses a namespace of its node")
	}
	if p.AutomountServiceAccountToken == nil || *p.AutomountServiceAccountToken {
		t.Error("the pod gets a token for an API it does not use")
	}
	if p.SecurityContext["runAsNonRoot"] != true || p.SecurityContext["runAsUser"] != user || p.SecurityContext["fsGroup"] != user {
		t.Errorf("security context of the pod: %v", p.SecurityContext)
	}
	if profile, _ := p.SecurityContext["seccompProfile"].(map[string]any); profile["type"] != "RuntimeDefault" {
		t.Errorf("seccomp profile: %v", profile)
	}
	all := append(slices.Clone(p.InitContainers), p.Containers...)
	if len(all) != 2 {
		t.Fatalf("%d containers, want 2", len(all))
	}
	for _, c := range all {
		s := c.SecurityContext
		if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.Privileged || !s.ReadOnlyRootFilesystem ||
			!slices.Equal(s.Capabilities.Drop, []string{"ALL"}) || len(s.Capabilities.Add) > 0 {
			t.Errorf("%s: %+v", c.Name, s)
		}
		if c.Resources.Limits["memory"] == "" {
			t.Errorf("%s may use all memory of its node", c.Name)
		}
	}
	for _, v := range p.Volumes {
		for _, kind := range slices.Sorted(maps.Keys(v)) {
			if !slices.Contains([]string{"name", "configMap", "secret", "emptyDir", "persistentVolumeClaim", "projected"}, kind) {
				t.Errorf("volume %v: restricted pods have no %s", v["name"], kind)
			}
		}
	}
}

// What the two programs need of each other and of the pod.
func TestPod_isWhatThePairNeeds(t *testing.T) {
	set := the(t, "StatefulSet", "spillway")
	p := set.Spec.Template.Spec
	if !p.ShareProcessNamespace {
		t.Error("the watchdog cannot signal the collector: pids are not shared")
	}
	if len(p.InitContainers) != 1 || p.InitContainers[0].Name != "watchdog" || p.InitContainers[0].RestartPolicy != "Always" {
		t.Fatal("the watchdog is not a sidecar")
	}
	if set.Spec.Retention["whenDeleted"] != "Retain" || set.Spec.Retention["whenScaled"] != "Retain" {
		t.Errorf("a volume with events in it may be deleted: %v", set.Spec.Retention)
	}
	volumes := map[string]bool{}
	for _, v := range p.Volumes {
		volumes[v["name"].(string)] = true
	}
	for _, v := range set.Spec.VolumeClaimTemplates {
		volumes[v.Metadata.Name] = true
	}
	at := func(c container) map[string]string {
		mounts := map[string]string{}
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("%s mounts %s, which the pod has not", c.Name, m.Name)
			}
			mounts[m.MountPath] = m.Name
		}
		return mounts
	}
	collector, watchdog := p.Containers[0], p.InitContainers[0]
	// The mode file lies there, and a restarted pod finds its spool.
	if a, b := at(collector)["/var/lib/spillway"], at(watchdog)["/var/lib/spillway"]; a != "data" || b != "data" {
		t.Errorf("the data directory is on %q and %q", a, b)
	}
	for what, c := range map[string]struct {
		probe *probe
		path  string
	}{"startup": {collector.StartupProbe, "/livez"}, "liveness": {collector.LivenessProbe, "/livez"}, "readiness": {collector.ReadinessProbe, "/readyz"}} {
		if c.probe == nil || c.probe.HTTPGet.Path != c.path || c.probe.HTTPGet.Port != "admin" {
			t.Errorf("%s probe: %+v", what, c.probe)
		}
	}
	ports := map[string]int{}
	for _, c := range []container{collector, watchdog} {
		for _, x := range c.Ports {
			ports[x.Name] = x.ContainerPort
		}
	}
	for _, service := range []string{"spillway", "spillway-pods"} {
		s := the(t, "Service", service)
		for _, x := range s.Spec.Ports {
			if ports[x.TargetPort] == 0 {
				t.Errorf("service %s: no container has the port %s", service, x.TargetPort)
			}
		}
		for key, value := range s.Spec.Selector {
			if set.Spec.Template.Metadata.Labels[key] != value {
				t.Errorf("service %s selects %s=%v, the pods have %v", service, key, value, set.Spec.Template.Metadata.Labels)
			}
		}
	}
	if headless := the(t, "Service", set.Spec.ServiceName); headless.Spec.ClusterIP != "None" {
		t.Errorf("the service of the StatefulSet has the address %q", headless.Spec.ClusterIP)
	}
	the(t, "PodDisruptionBudget", "spillway")
}

// settings are those that have to fit the pod's own.
type settings struct {
	Stop    struct{ Grace, Timeout time.Duration }
	Restart struct {
		Ladder      []string
		Timeout     time.Duration
		StopTimeout time.Duration `yaml:"stop_timeout"`
	}
	Flush struct{ Timeout time.Duration }
	Rules struct{ Unreachable struct{ For time.Duration } }
}

func read(t *testing.T, file string) settings {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var s settings
	if err := yaml.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPod_timingsFitTogether(t *testing.T) {
	p := the(t, "StatefulSet", "spillway").Spec.Template.Spec
	collector, watchdog := read(t, "k8s/config/collector.yaml"), read(t, "k8s/config/watchdog.yaml")
	grace := time.Duration(p.TerminationGracePeriodSeconds) * time.Second
	if stop := collector.Stop.Grace + collector.Stop.Timeout; stop == 0 || stop >= grace {
		t.Errorf("a graceful stop takes up to %v, the kubelet kills after %v", stop, grace)
	}
	if stop := watchdog.Flush.Timeout + watchdog.Restart.StopTimeout; stop >= grace {
		t.Errorf("the watchdog flushes and stops for %v, the kubelet kills after %v", stop, grace)
	}
	if stop := watchdog.Restart.StopTimeout; stop <= collector.Stop.Grace {
		t.Errorf("the watchdog kills after %v a collector that still takes requests for %v", stop, collector.Stop.Grace)
	}
	live := p.Containers[0].LivenessProbe
	if patience := time.Duration(live.PeriodSeconds*live.FailureThreshold) * time.Second; patience < time.Minute || patience+grace > watchdog.Rules.Unreachable.For {
		t.Errorf("the liveness probe acts after %v and takes %v; the watchdog acts after %v", patience, grace, watchdog.Rules.Unreachable.For)
	}
	if len(watchdog.Restart.Ladder) == 0 || watchdog.Restart.Ladder[0] != "live" {
		t.Errorf("the ladder begins with a restart, which counts towards the crash back-off: %v", watchdog.Restart.Ladder)
	}
}

// The programs themselves read the configs, for Kubernetes and for compose.
func TestConfigs_areValid(t *testing.T) {
	var builder proc.Builder
	defer func() { _ = builder.Close() }()
	programs, err := pair.Build(&builder)
	if err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{"k8s/config", "compose"} {
		dir := t.TempDir()
		for _, name := range []string{"collector.yaml", "collector-fallback.yaml", "watchdog.yaml"} {
			text, err := os.ReadFile(filepath.Join(from, name))
			if err != nil {
				t.Fatal(err)
			}
			// A secret is read with the config; the pod's is not here.
			here := strings.ReplaceAll(string(text), "/run/secrets/spillway/token", token)
			if err := os.WriteFile(filepath.Join(dir, name), []byte(here), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, argv := range [][]string{
			{programs.Collector, "check-config", "collector.yaml", "collector-fallback.yaml"},
			{programs.Watchdog, "check-config", "--offline", "watchdog.yaml"},
		} {
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %v\n%s", from, argv[1:], err, out)
			}
		}
	}
}
