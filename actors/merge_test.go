package actors_test

import (
	"testing"

	"addon-operator/actors"
	"addon-operator/messages"
)

// What repeats a Synchronization that waits or runs is dropped; nothing else is. C15
func TestRepeats(t *testing.T) {
	sync := func(owner, hook string, again bool, bindings ...int) messages.Task {
		return messages.Task{Owner: owner, Work: messages.SynchronizeHook{Hook: hook, Bindings: bindings, Again: again}}
	}
	added := sync("m", "h", true, 0)
	tests := map[string]struct {
		added, other messages.Task
		want         bool
	}{
		"the same again":                     {added, sync("m", "h", true, 0), true},
		"the first one":                      {added, sync("m", "h", false, 0), true},
		"the first one twice":                {sync("m", "h", false, 0), sync("m", "h", false, 0), true},
		"the first one is never dropped":     {sync("m", "h", false, 0), sync("m", "h", true, 0), false},
		"another binding":                    {added, sync("m", "h", true, 1), false},
		"a group of bindings":                {added, sync("m", "h", false, 0, 1), false},
		"another hook":                       {added, sync("m", "other", true, 0), false},
		"a hook of the same name elsewhere":  {added, sync("n", "h", true, 0), false},
		"an event of the hook":               {added, messages.Task{Owner: "m", Work: messages.RunHook{Hook: "h"}}, false},
		"an event after a resynchronization": {messages.Task{Owner: "m", Work: messages.RunHook{Hook: "h"}}, added, false},
		"a module run":                       {added, messages.Task{Owner: "m", Work: messages.RunModule{}}, false},
	}
	for situation, test := range tests {
		t.Run(situation, func(t *testing.T) {
			if got := actors.Repeats(test.added, test.other); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
