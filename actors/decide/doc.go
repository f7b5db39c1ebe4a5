// Package decide is what actors decide without asking anybody: which modules are enabled, what a
// reload does, which purges are held back, whether a ConfigMap is accepted. Its functions compute
// answers from what they are given, so converge, config and a plan come to the same ones.
//
// It knows no actors, and has no effects.
package decide
