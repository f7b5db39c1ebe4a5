// Command addon-operator keeps the add-ons of a Kubernetes cluster installed: modules,
// which are Helm charts with hooks.
//
// It lists the commands, which are in the other packages of cmd/.
package main
