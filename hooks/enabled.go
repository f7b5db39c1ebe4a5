package hooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
)

// EnabledScript is one execution of a module's enabled script.
type EnabledScript struct {
	Module       string
	Path         string // absolute; its directory is the directory of the module
	Values       any
	ConfigValues any
	Labels       []slog.Attr
	Env          []string // KEY=value, added to the environment of this execution
}

// Answer is the answer of an enabled script.
type Answer struct {
	Enabled bool
	Reason  string // what it wrote to MODULE_ENABLED_REASON, shortened; "" for nothing
}

// Enabled runs a module's enabled script, which writes true or false to the file
// MODULE_ENABLED_RESULT (E6). Scripts of the first generation print the word instead, which is
// accepted with a warning in the log if the file is empty (X19). What the script writes to
// MODULE_ENABLED_REASON is returned and logged. Every other answer is an error, as is a failure of
// the script: the caller then does not know whether the module is enabled.
func (r *Runner) Enabled(ctx context.Context, s EnabledScript) (Answer, error) {
	name := s.Module + "/enabled"
	dir, err := makeRunDir(r.options.TmpDir, name, r.options.MaxResultBytes)
	if err != nil {
		return Answer{}, fmt.Errorf("hook %s: %w", name, err)
	}
	defer r.discard(dir, s.Labels, name)
	err = errors.Join(
		addTree(dir, envValues, s.Values),
		addTree(dir, envConfig, s.ConfigValues),
		dir.add(envEnabled, nil),
		dir.add(envReason, nil),
	)
	if err != nil {
		return Answer{}, fmt.Errorf("hook %s: %w", name, err)
	}
	// 64 bytes are enough for either word with white space around it; anything longer is no answer.
	stdout, printed := r.output(s.Labels, name, "stdout"), &head{limit: 64}
	p := r.process(name, s.Path, s.Labels, r.environment(slices.Concat(dir.env, s.Env), filepath.Dir(filepath.Dir(s.Path))))
	p.stdout, p.limit, p.gated = io.MultiWriter(stdout, printed), r.limit(), true
	_, err = p.run(ctx)
	stdout.flush()
	if err != nil {
		return Answer{}, err
	}
	log := slog.New(r.options.Log.Handler().WithAttrs(withHook(s.Labels, name)))
	answer, err := readEnabled(dir, printed, log)
	if err != nil {
		return Answer{}, fmt.Errorf("hook %s: %w", name, err)
	}
	return answer, nil
}

// readEnabled reads the answer from the file, or from the beginning of stdout if the file is empty.
func readEnabled(dir *runDir, printed *head, log *slog.Logger) (Answer, error) {
	answer, err1 := dir.result(envEnabled)
	reason, err2 := dir.result(envReason)
	if err := errors.Join(err1, err2); err != nil {
		return Answer{}, err
	}
	word := string(bytes.TrimSpace(answer))
	if said := strings.TrimSpace(string(printed.data)); word == "" && printed.total <= printed.limit && isBool(said) {
		word = said
		log.Warn("enabled script printed its answer to stdout; write it to the file in MODULE_ENABLED_RESULT", "answer", word)
	}
	switch {
	case word == "":
		return Answer{}, fmt.Errorf("wrote nothing to %s; write true or false", envEnabled)
	case !isBool(word):
		return Answer{}, fmt.Errorf("wrote %q to %s; write true or false", shorten(answer, 80), envEnabled)
	}
	text := shorten(reason, 1000)
	if text != "" {
		log.Info("enabled script gave a reason", "enabled", word == "true", "reason", text)
	}
	return Answer{Enabled: word == "true", Reason: text}, nil
}

func isBool(word string) bool {
	return word == "true" || word == "false"
}
