package view

import "addon-operator/hooks"

// Printable gives a text of one or more lines in which nothing commands a terminal.
func Printable(text string) string { return hooks.Printable(text) }
