package scenario

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A stand-in that is killed between the number of its call and the arguments, as by a hook that
// ends, does not hide later calls. The programs that may make the number kill it right afterwards.
func TestStandInThatIsKilled(t *testing.T) {
	bin, once := t.TempDir(), filepath.Join(t.TempDir(), "killed")
	for _, name := range []string{"mkdir", "ln"} {
		path, err := exec.LookPath(name)
		must(t, err)
		text := "#!/bin/sh\n" + path + ` "$@" || exit; [ -e ` + once + ` ] || { : >` + once + "; kill -9 $PPID; }\n"
		must(t, os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755))
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	s := commands{dir: t.TempDir(), answers: map[string][]answer{"vault": {{}}}}
	must(t, s.write())
	for _, arg := range []string{"killed", "later"} {
		err := exec.Command(filepath.Join(s.bin(), "vault"), arg, "and more").Run()
		if (err != nil) != (arg == "killed") {
			t.Errorf("%s: %v", arg, err)
		}
	}
	calls := s.take()
	if len(calls) == 0 || strings.Join(calls[len(calls)-1].args, "|") != "later|and more" {
		t.Errorf("the calls are %v", calls)
	}
}
