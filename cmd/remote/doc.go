// Package remote has the commands that ask a running operator on its debug address, and
// those that change its ConfigMap.
package remote
