package dryrun

import (
	"fmt"
	"strings"
	"testing"
)

// J9: a mask hides both sides of a difference, also the one that it does not know, and says that they differ.
func TestMasksHideBothSides(t *testing.T) {
	var hide func(any) any
	hide = func(tree any) any {
		switch v := tree.(type) {
		case map[string]any:
			out := map[string]any{}
			for key, child := range v {
				out[key] = hide(child)
			}
			return out
		case []any:
			var out []any
			for _, child := range v {
				out = append(out, hide(child))
			}
			return out
		case string:
			return strings.ReplaceAll(v, "NEW", "***")
		}
		return tree
	}
	object := func(secret, other string) map[string]any {
		env := func(name, value string) any { return map[string]any{"name": name, "value": value} }
		list := []any{env("A", secret), env("B", "b")}
		args := []any{"run", "--x=" + secret}
		if other != "" {
			list, args = append(list, env("C", other)), append(args, other)
		}
		return map[string]any{"kind": "X", "env": list, "args": args, "text": "a = 1\nx " + secret + "\nb = " + other + "\n", "one": secret, "same": "same"}
	}
	for name, c := range map[string]Change{
		"one value differs": {Verb: Changed, Before: object("OLD", ""), After: object("NEW", "")},
		"more differs":      {Verb: Changed, Before: object("OLD", ""), After: object("NEW", "more")},
		"less":              {Verb: Changed, Before: object("NEW", "more"), After: object("OLD", "")},
		"created":           {Verb: Created, After: object("NEW", "")},
	} {
		c.Mask = func(o map[string]any) map[string]any { m, _ := hide(o).(map[string]any); return m }
		text := c.Diff(false)
		for _, f := range fieldsOf(c) {
			text += f.Path + "\n"
			text += fmt.Sprintln(f.Before, f.After)
		}
		if strings.Contains(text, "OLD") || strings.Contains(text, "NEW") || !strings.Contains(text, "***") {
			t.Errorf("%s:\n%s", name, text)
		}
		if c.Verb == Changed && !strings.Contains(text, "one") {
			t.Errorf("%s: that it differs is not told:\n%s", name, text)
		}
		if shown := c.Diff(true); !strings.Contains(shown, "NEW") {
			t.Errorf("%s: nothing is shown:\n%s", name, shown)
		}
	}
}

// fieldsOf are the fields of a change; an object that is created has none.
func fieldsOf(c Change) []Field {
	if c.Verb == Created {
		return nil
	}
	return c.Fields(false)
}
