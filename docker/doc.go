// Package docker holds the container images, a compose file to play with, and the
// manifests for Kubernetes, with the tests that hold them to their promises. The
// types of Kubernetes are checked by the module in k8s/strict.
package docker
