package cli

import (
	"errors"
	"testing"
)

func TestUsageErrorKeepsItsCause(t *testing.T) {
	cause := errors.New("cause")
	if err := Usagef("%w", cause); !errors.Is(err, cause) || !errors.As(err, new(UsageError)) {
		t.Error("the cause is lost")
	}
}
