package hooks

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
)

// enabledScript writes the enabled script of a module.
func enabledScript(t *testing.T, body string) EnabledScript {
	t.Helper()
	path := filepath.Join(t.TempDir(), "modules", "001-m", "enabled")
	write(t, path, "#!/usr/bin/env bash\n"+body+"\n", 0o755)
	return EnabledScript{Module: "m", Path: path, Labels: []slog.Attr{slog.String("module", "m")}}
}

func TestEnabled(t *testing.T) { // E6, X19
	tests := map[string]struct {
		script string
		want   bool
		logged string // a message that must be in the log, "" for none
	}{
		"the file says true":                          {`echo true > $MODULE_ENABLED_RESULT`, true, ""},
		"the file says false, among blanks":           {`printf '\n false \n' > $MODULE_ENABLED_RESULT`, false, ""},
		"the file wins over what is printed":          {`echo true; echo false > $MODULE_ENABLED_RESULT`, false, "true"},
		"the word is printed (seed 004)":              {`echo true`, true, "enabled script printed its answer to stdout; write it to the file in MODULE_ENABLED_RESULT"},
		"the word is printed and the file is removed": {`rm $MODULE_ENABLED_RESULT; echo false`, false, "enabled script printed its answer to stdout; write it to the file in MODULE_ENABLED_RESULT"},
		"a reason": {`echo "no nodes" > $MODULE_ENABLED_REASON; echo false > $MODULE_ENABLED_RESULT`, false, "enabled script gave a reason"},
		"values can be read, and the module directory is the current one": {
			`[[ $(<$VALUES_PATH) == '{"m":1}' && $(<$CONFIG_VALUES_PATH) == '{}' && -x ./enabled && $WORKING_DIR == "$(dirname $PWD)" && $# -eq 0 ]] && echo true > $MODULE_ENABLED_RESULT`, true, ""},
		"patches cannot be written": {
			`[[ -z $VALUES_JSON_PATCH_PATH$CONFIG_VALUES_JSON_PATCH_PATH ]] && echo true > $MODULE_ENABLED_RESULT`, true, ""},
	}
	for situation, test := range tests {
		t.Run(situation, func(t *testing.T) {
			runner, log := newRunner(t, Options{})
			s := enabledScript(t, test.script)
			s.Values = map[string]any{"m": int64(1)}
			got, err := runner.Enabled(t.Context(), s)
			if err != nil || got.Enabled != test.want || (got.Reason == "no nodes") != (situation == "a reason") {
				t.Errorf("got %v, %v", got, err)
			}
			messages := strings.Join(log.messages(t), "\n")
			if (test.logged == "") != (messages == "") || !strings.Contains(messages, test.logged) {
				t.Errorf("log %q, want %q", messages, test.logged)
			}
			for _, record := range log.records(t) {
				if record["hook"] != "m/enabled" || record["module"] != "m" {
					t.Errorf("labels of %v", record)
				}
			}
		})
	}
}

func TestEnabledFails(t *testing.T) { // E6
	tests := map[string]struct{ script, want string }{
		"nothing is written":           {`:`, "wrote nothing to MODULE_ENABLED_RESULT; write true or false"},
		"another word":                 {`echo yes > $MODULE_ENABLED_RESULT`, `wrote "yes" to MODULE_ENABLED_RESULT; write true or false`},
		"another word is printed":      {`echo yes`, "wrote nothing to MODULE_ENABLED_RESULT"},
		"more than the word":           {`echo checking; echo true`, "wrote nothing to MODULE_ENABLED_RESULT"},
		"much is printed":              {`printf 'true%100s'`, "wrote nothing to MODULE_ENABLED_RESULT"},
		"upper case":                   {`echo True > $MODULE_ENABLED_RESULT`, `wrote "True"`},
		"the result is a directory":    {`rm $MODULE_ENABLED_RESULT; mkdir $MODULE_ENABLED_RESULT`, "not a regular file"},
		"the result is a link":         {`ln -sf /etc/passwd $MODULE_ENABLED_RESULT`, "not a regular file"},
		"the exit code, whatever else": {`echo true > $MODULE_ENABLED_RESULT; echo oops >&2; exit 4`, "exit code 4: oops"},
		"the exit code next to a word": {`echo true; exit 4`, "exit code 4"},
	}
	for situation, test := range tests {
		t.Run(situation, func(t *testing.T) {
			runner, _ := newRunner(t, Options{})
			got, err := runner.Enabled(t.Context(), enabledScript(t, test.script))
			if err == nil || got.Enabled || !strings.Contains(err.Error(), "hook m/enabled: ") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, error %v, want one that says %q", got, err, test.want)
			}
			var exit *ExitError
			if errors.As(err, &exit) != strings.Contains(test.want, "exit code") {
				t.Errorf("error %v has the wrong type", err)
			}
		})
	}
}
