package messages_test

import (
	"log/slog"
	"strings"
	"testing"

	"addon-operator/messages"
	"addon-operator/values"
)

// Design 7: values never reach a log, also when a dead letter is logged with its message.
func TestValuesAreNotLogged(t *testing.T) {
	section, err := values.NewSection("dns", nil, values.Layer{Source: "values.yaml", Value: map[string]any{"password": "secret"}})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	slog.New(slog.NewTextHandler(&out, nil)).Info("dead letter", "message", messages.Values{Section: section})
	if strings.Contains(out.String(), "secret") {
		t.Errorf("logged: %s", out.String())
	}
}
