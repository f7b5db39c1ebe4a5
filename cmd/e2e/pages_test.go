package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// page is the text of a page of docs, or of its section with a title.
func page(t testing.TB, name, section string) string {
	t.Helper()
	data, err := os.ReadFile("../../docs/" + name)
	must(t, err)
	if section == "" {
		return string(data)
	}
	_, text, found := strings.Cut(string(data), "\n## "+section+"\n")
	if !found {
		t.Fatalf("%s has no section %q", name, section)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// blocks are the fenced blocks of a language in a text.
func blocks(text, language string) (all []string) {
	for _, found := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(text, -1) {
		all = append(all, found[1])
	}
	return all
}

// typed runs what a page says in a shell, as a person types it in an empty directory.
func typed(t testing.TB, script string, env ...string) (dir, out string) {
	t.Helper()
	bin, err := filepath.Abs("../../bin")
	must(t, err)
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = t.TempDir()
	cmd.Env = append(append(os.Environ(), "PATH="+filepath.Dir(program())+":"+bin+":"+os.Getenv("PATH")), env...)
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return cmd.Dir, string(output)
}
