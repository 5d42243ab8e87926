package docker

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"
)

// manifest is what the tests look at of a Kubernetes object.
type manifest struct {
	Kind     string `yaml:"kind"`
	Metadata struct {
		Name   string            `yaml:"name"`
		Labels map[string]string `yaml:"labels"`
	} `yaml:"metadata"`
	AutomountServiceAccountToken *bool `yaml:"automountServiceAccountToken"`
	Spec                         struct {
		ServiceName          string            `yaml:"serviceName"`
		ClusterIP            string            `yaml:"clusterIP"`
		Selector             map[string]any    `yaml:"selector"`
		Ports                []port            `yaml:"ports"`
		Retention            map[string]string `yaml:"persistentVolumeClaimRetentionPolicy"`
		VolumeClaimTemplates []struct {
			Metadata struct {
				Name string `yaml:"name"`
			} `yaml:"metadata"`
		} `yaml:"volumeClaimTemplates"`
		Template struct {
			Metadata struct {
				Labels map[string]string `yaml:"labels"`
			} `yaml:"metadata"`
			Spec pod `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"spec"`
}

type pod struct {
	AutomountServiceAccountToken  *bool          `yaml:"automountServiceAccountToken"`
	ShareProcessNamespace         bool           `yaml:"shareProcessNamespace"`
	TerminationGracePeriodSeconds int            `yaml:"terminationGracePeriodSeconds"`
	HostNetwork                   bool           `yaml:"hostNetwork"`
	HostPID                       bool           `yaml:"hostPID"`
	HostIPC                       bool           `yaml:"hostIPC"`
	SecurityContext               map[string]any `yaml:"securityContext"`
	InitContainers                []container    `yaml:"initContainers"`
	Containers                    []container    `yaml:"containers"`
	Volumes                       []map[string]any
}

type container struct {
	Name            string   `yaml:"name"`
	Image           string   `yaml:"image"`
	RestartPolicy   string   `yaml:"restartPolicy"`
	Ports           []port   `yaml:"ports"`
	StartupProbe    *probe   `yaml:"startupProbe"`
	LivenessProbe   *probe   `yaml:"livenessProbe"`
	ReadinessProbe  *probe   `yaml:"readinessProbe"`
	SecurityContext security `yaml:"securityContext"`
	Resources       struct {
		Limits map[string]string `yaml:"limits"`
	} `yaml:"resources"`
	VolumeMounts []struct {
		Name      string `yaml:"name"`
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

type security struct {
	AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
	ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
	Privileged               bool  `yaml:"privileged"`
	Capabilities             struct {
		Add  []string `yaml:"add"`
		Drop []string `yaml:"drop"`
	} `yaml:"capabilities"`
}

type port struct {
	Name          string `yaml:"name"`
	Port          int    `yaml:"port"`
	ContainerPort int    `yaml:"containerPort"`
	TargetPort    string `yaml:"targetPort"`
}

type probe struct {
	HTTPGet struct {
		Path string `yaml:"path"`
		Port string `yaml:"port"`
	} `yaml:"httpGet"`
	PeriodSeconds    int `yaml:"periodSeconds"`
	FailureThreshold int `yaml:"failureThreshold"`
}

// manifests returns all objects of docker/k8s.
func manifests(t *testing.T) []manifest {
	t.Helper()
	files, err := filepath.Glob("k8s/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []manifest
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
			var m manifest
			err := d.Decode(&m)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			all = append(all, m)
		}
	}
	return all
}

// the returns the one object of a kind and name.
func the(t *testing.T, kind, name string) manifest {
	t.Helper()
	for _, m := range manifests(t) {
		if m.Kind == kind && m.Metadata.Name == name {
			return m
		}
	}
	t.Fatalf("no %s %s in docker/k8s", kind, name)
	return manifest{}
}
