// Package strict checks the manifests against the types of Kubernetes itself: an
// unknown field, a wrong type, a wrong case. It is a module of its own, so that
// those types burden neither program.
package strict
