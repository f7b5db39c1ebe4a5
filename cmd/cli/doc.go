// Package cli is what all commands of the program share: the options of the operator,
// from flags and environment, its log, and the rules for arguments and errors.
package cli
