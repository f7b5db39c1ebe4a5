// Command addon-operator keeps the add-ons of a Kubernetes cluster installed: modules,
// which are Helm charts with hooks.
//
// This room parses options and wires the others together. It decides nothing.
package main
