package cli

import (
	"bytes"
	"os"
	"testing"
)

// The status line is removed before lines are written and stands below them afterwards, is no wider than the terminal, and
// never breaks a line that is not complete.
func TestStatusLine(t *testing.T) {
	var out bytes.Buffer
	s := &StatusLine{out: &out, width: func() int { return 10 }}
	wrote := func(want string) {
		t.Helper()
		if got := out.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		out.Reset()
	}
	write := func(text string) {
		t.Helper()
		if n, err := s.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
	}
	write("a\n")
	wrote("a\n")
	s.Set("one")
	wrote(clearLine + "one")
	s.Set("one")
	wrote("")
	write("b\n")
	wrote(clearLine + "b\none")
	s.Set("0123456789abc")
	wrote(clearLine + "01234567…")
	s.Set("\x1b[2Jx")
	if bytes.Contains(out.Bytes(), []byte("\x1b[2J")) {
		t.Errorf("a text commands the terminal: %q", out.Bytes())
	}
	out.Reset()
	s.Set("one")
	out.Reset()
	write("half")
	s.Set("two")
	wrote(clearLine + "half")
	write(" whole\n")
	wrote(" whole\ntwo")
	s.Set("")
	wrote(clearLine)
}

// There is none in a pipe or a file.
func TestNoStatusLine(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if NewStatusLine(file) != nil || NewStatusLine(&bytes.Buffer{}) != nil {
		t.Error("a status line without a terminal")
	}
}
