package messages_test

import (
	"testing"

	"addon-operator/messages"
	"addon-operator/values"
)

// A6: no module has the name of an owner that is none: its tasks would go there.
func TestNamesOfOwnersAreReserved(t *testing.T) {
	for _, owner := range []string{messages.GlobalHooks, messages.Converge} {
		if key, err := values.Key(owner); err == nil {
			t.Errorf("a module may be called %s, with the key %s", owner, key)
		}
	}
}
