package dev

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// record is one record of the operator's log, as its JSON reads: numbers are float64.
type record map[string]any

// text is an attribute, "" when it is missing or no text.
func (r record) text(key string) string {
	text, _ := r[key].(string)
	return text
}

// number is an attribute, 0 when it is missing or no number.
func (r record) number(key string) int {
	n, _ := r[key].(float64)
	return int(n)
}

// recorder is where the operator writes its log: each Write is one record in JSON, which is passed
// on. What is no JSON is dropped. It never returns an error, so the operator does not notice a
// terminal that is gone.
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

// ends reports whether the end of the run that printed the line is reported: that of hooks is, that
// of enabled scripts and of --config is not.
func (r record) ends() bool { return r.text("task") != "" && r.text("binding") != "enabled" }

// run names the run that printed the line; hookRan makes the same name from the end of a run.
func (r record) run() string { return r.text("task") + " " + r.text("hook") + " " + r.text("binding") }

// fact makes a record readable. There is none for debug records and for what state, runs or
// differences show better. Attributes follow the message in alphabetical order.
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
