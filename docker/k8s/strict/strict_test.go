package strict

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// decoder is strict and case-sensitive, as the API server is with
// fieldValidation=Strict.
func decoder(t *testing.T) runtime.Decoder {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
}

func TestManifests_areWhatKubernetesKnows(t *testing.T) {
	files, err := filepath.Glob("../*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	decode := decoder(t)
	kinds := map[string]int{}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue // not a type of the API
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		for docs := yaml.NewYAMLReader(bufio.NewReader(f)); ; {
			text, err := docs.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			_, kind, err := decode.Decode(text, nil, nil)
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			kinds[kind.Kind]++
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"StatefulSet", "Service", "PodDisruptionBudget", "NetworkPolicy", "ServiceAccount", "Namespace"} {
		if kinds[want] == 0 {
			t.Errorf("no %s among %v", want, kinds)
		}
	}
}

// The check itself: it must not let through what the API server refuses.
func TestDecoder_isStrict(t *testing.T) {
	for name, text := range map[string]string{
		"unknown field": "{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {portz: []}}",
		"wrong case":    "{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {clusterip: None}}",
		"wrong type":    "{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {ports: 80}}",
	} {
		if _, _, err := decoder(t).Decode([]byte(text), nil, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
