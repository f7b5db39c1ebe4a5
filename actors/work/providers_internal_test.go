package work

import (
	"errors"
	"fmt"
	"testing"

	"addon-operator/actors/decide"
)

// F6: what an object patch lacks is known from its error.
func TestNeedsOfPatches(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("hook h.sh: object patches: %w", errors.Join(
		errors.New("Create Rule d/x: find example.com/v1/Rule: the API server has no such kind"),
		errors.New("Create Pod d/x: pods is forbidden"),
	))
	needs := needsOfPatches(err)
	if want := (decide.Need{Group: "example.com", Kind: "Rule"}); len(needs) != 1 || needs[0] != want {
		t.Errorf("needs = %+v, want %+v", needs, want)
	}
}
