package view

import (
	"fmt"
	"strings"
)

// DriftedObject is an object that others changed, without values.
type DriftedObject struct {
	Object string   `json:"object"`
	Fields []string `json:"fields"`
}

// String implements fmt.Stringer.
func (d DriftedObject) String() string {
	const shown = 5
	fields := d.Fields
	more := ""
	if len(fields) > shown {
		more = fmt.Sprintf(" and %d more", len(fields)-shown)
		fields = fields[:shown]
	}
	return d.Object + ": " + strings.Join(fields, ", ") + more
}
