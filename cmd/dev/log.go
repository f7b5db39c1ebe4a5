package dev

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// record is one record of the operator's log.
type record map[string]any

func (r record) text(key string) string {
	text, _ := r[key].(string)
	return text
}

func (r record) number(key string) int {
	n, _ := r[key].(float64)
	return int(n)
}

// recorder gets the log as the operator writes it, a record with each Write, as JSON.
type recorder struct{ to func(any) }

// Write implements io.Writer.
func (r recorder) Write(line []byte) (int, error) {
	var one record
	if json.Unmarshal(line, &one) == nil {
		r.to(one)
	}
	return len(line), nil
}

// isOutput reports whether it is a line that a hook, or an enabled script, has printed.
func (r record) isOutput() bool { return r["stream"] != nil && r["hook"] != nil }

// ends reports whether the end of what has printed it is reported: that of hooks is, but not of enabled scripts, and of --config.
func (r record) ends() bool { return r.text("task") != "" && r.text("binding") != "enabled" }

// run names the run that has printed it.
func (r record) run() string { return r.text("task") + " " + r.text("hook") + " " + r.text("binding") }

// fact is the record for people. Of what the state shows better there is none.
func (r record) fact() (fact, bool) {
	level, text := r.text("level"), r.text("msg")
	switch {
	case level == "DEBUG", text == "addon-operator starts", text == "start-up begins", text == "release", text == "addon-operator has stopped", strings.HasPrefix(text, "task failed"):
		return fact{}, false
	}
	var more []string
	for _, key := range slices.Sorted(maps.Keys(r)) {
		switch key {
		case "time", "level", "msg", "module", "err":
			continue
		}
		if value := fmt.Sprint(r[key]); value != "" && value != "[]" {
			more = append(more, key+"="+value)
		}
	}
	if len(more) > 0 {
		text += " (" + strings.Join(more, ", ") + ")"
	}
	if err := r.text("err"); err != "" {
		text += ": " + err
	}
	f := newFact(aboutLog, r.text("module"), text)
	f.Bad = level == "WARN" || level == "ERROR"
	return f, true
}
