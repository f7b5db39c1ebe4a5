// Package decide is what actors decide without exchanging messages: which modules are enabled, what
// a reload does, which purges are held back, whether a ConfigMap is accepted. Its functions compute
// answers from what they are given and from files, so converge, config, a plan and a check of files
// come to the same ones.
//
// It knows no actors, and has no effects.
package decide
