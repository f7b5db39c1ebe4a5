package view

import "addon-operator/hooks"

// Printable returns a text of one or more lines in which nothing controls a terminal (J10).
func Printable(text string) string { return hooks.Printable(text) }
