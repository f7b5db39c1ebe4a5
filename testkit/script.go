package testkit

import (
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// Script is a lifecycle script that is written in code, by a test that varies something in it.
// Scripts in files are played by [Lifecycle] and [Interleave].
type Script struct {
	sentence string
	files    []txtar.File
	steps    []string
}

// NewScript begins a script with the sentence that says what it proves.
func NewScript(sentence string) *Script { return &Script{sentence: sentence} }

// File adds a file: modules/010-dns/hooks/a.sh, global-hooks/hooks/b.sh, or one that a step
// names.
func (s *Script) File(name, text string) *Script {
	s.files = append(s.files, txtar.File{Name: name, Data: []byte(strings.TrimLeft(text, "\n"))})
	return s
}

// Step adds steps, one a line.
func (s *Script) Step(steps ...string) *Script {
	s.steps = append(s.steps, steps...)
	return s
}

// Archive is the script as a file would hold it, without a trace.
func (s *Script) Archive() *txtar.Archive {
	script := txtar.File{Name: "script", Data: []byte(strings.Join(s.steps, "\n") + "\n")}
	return &txtar.Archive{Comment: []byte(s.sentence + "\n\n"), Files: append([]txtar.File{script}, s.files...)}
}

// String is the text of the script, ready to be kept in a file.
func (s *Script) String() string { return string(txtar.Format(s.Archive())) }

// Play plays the script; see [Stage.Play] for the seed.
func (s *Script) Play(t *testing.T, seed uint64) *Played {
	t.Helper()
	stage := NewStage(t, s.Archive())
	return stage.Play(t, stage.Script, seed)
}
