// Package cli is what all commands of the program share: the options of the operator,
// from flags and environment, and the rules for arguments, errors and formats.
package cli
