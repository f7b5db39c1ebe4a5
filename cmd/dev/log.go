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
// on. What is no JSON is dropped. It never returns an error.
type recorder struct{ to func(record) }

// Write implements io.Writer.
func (r recorder) Write(line []byte) (int, error) {
	var one record
	if json.Unmarshal(line, &one) == nil {
		r.to(one)
	}
	return len(line), nil
}

// fact makes a record readable. There is none for debug records and for what says nothing to an author. Attributes follow the message in alphabetical order.
func (r record) fact() (fact, bool) {
	level, text := r.text("level"), r.text("msg")
	switch {
	case r["stream"] != nil && r["hook"] != nil: // a line that a hook, or an enabled script, has printed
		return fact{about: aboutHook, module: r.text("module"), text: r.text("hook") + " | " + text}, true
	case text == "release":
		what := fmt.Sprintf("%s, revision %d", r.text("action"), r.number("revision"))
		if reason := r.text("reason"); reason != "" {
			what += ": " + reason
		}
		return fact{about: aboutRun, module: r.text("module"), text: what}, true
	case level == "DEBUG", text == "addon-operator starts", text == "start-up begins", text == "addon-operator has stopped":
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
	return fact{about: aboutLog, module: r.text("module"), text: text, bad: level == "WARN" || level == "ERROR"}, true
}
