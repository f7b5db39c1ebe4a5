package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// instruction is a line of a Dockerfile, continuations joined.
type instruction struct{ stage, name, args string }

func dockerfile(t *testing.T) (all []instruction) {
	t.Helper()
	data, err := os.ReadFile(repository + "Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	stage, text := "", regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(string(data), "")
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		name, args, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		if _, as, ok := strings.Cut(args, " AS "); ok && name == "FROM" {
			stage = as
		}
		all = append(all, instruction{stage, name, strings.Join(strings.Fields(args), " ")})
	}
	return all
}

// No stage that can be the image leaves root as its user, process 1 is tini, and what
// hooks usually call is there.
func TestImage(t *testing.T) {
	user, installed, entry, stages, sets := map[string]string{}, "", "", "", ""
	for _, i := range dockerfile(t) {
		switch i.name {
		case "FROM":
			from, as, _ := strings.Cut(i.args, " AS ")
			user[as] = user[from] // "" for images of others: root
			stages += " " + as
		case "USER":
			user[i.stage] = i.args
		case "RUN":
			installed += i.args + " "
		case "ENTRYPOINT":
			entry = i.args
		case "ENV":
			if i.stage != "modules" {
				sets += i.args + " "
			}
		case "ADD":
			t.Errorf("ADD %s: COPY does not fetch and unpack", i.args)
		}
	}
	if stages != " modules kubectl program-source release program-release program base python operator" {
		t.Errorf("stages are%s; the last one is made without --target", stages)
	}
	for _, stage := range []string{"base", "python", "operator"} {
		if user[stage] != "65532:65532" {
			t.Errorf("stage %s ends as user %q", stage, user[stage])
		}
	}
	for _, program := range []string{"bash", "jq", "curl", "tini", "ca-certificates", "kubectl", "python3"} {
		if !strings.Contains(installed, program) {
			t.Errorf("no %s", program)
		}
	}
	// A variable of the image looks like one that somebody has set: it would switch
	// ADDON_OPERATOR_WORKING_DIR off (A2), and win over weaker names of its option (B4).
	program().PersistentFlags().VisitAll(func(f *pflag.Flag) {
		for _, variable := range regexp.MustCompile(`\$([A-Z_]+)`).FindAllStringSubmatch(f.Usage, -1) {
			if strings.Contains(sets, variable[1]+"=") {
				t.Errorf("the image sets %s", variable[1])
			}
		}
	})
	if entry != `["/sbin/tini", "--", "/bin/addon-operator"]` {
		t.Errorf("entry point %s", entry)
	}
}

// argument returns the default of an ARG of the stage.
func argument(t *testing.T, stage, name string) string {
	t.Helper()
	for _, i := range dockerfile(t) {
		if value, ok := strings.CutPrefix(i.args, name+"="); ok && i.stage == stage && i.name == "ARG" {
			return value
		}
	}
	t.Fatalf("stage %s has no ARG %s with a default", stage, name)
	return ""
}

// steps are the commands of a stage's RUN instructions.
func steps(t *testing.T, stage string) string {
	t.Helper()
	var all []string
	for _, i := range dockerfile(t) {
		if i.stage == stage && i.name == "RUN" {
			all = append(all, regexp.MustCompile(`--mount=\S+ `).ReplaceAllString(i.args, ""))
		}
	}
	if len(all) == 0 {
		t.Fatalf("stage %s runs nothing", stage)
	}
	return strings.Join(all, " && ")
}

// environment is what the stages that compile set.
func environment(t *testing.T) (env []string) {
	t.Helper()
	for _, i := range dockerfile(t) {
		if i.stage == "modules" && i.name == "ENV" {
			for _, m := range regexp.MustCompile(`([A-Z_]+)=("[^"]*"|\S+)`).FindAllStringSubmatch(i.args, -1) {
				env = append(env, m[1]+"="+strings.Trim(m[2], `"`))
			}
		}
	}
	return env
}

// The commands that build the program and kubectl are run as they stand, twice, in different directories: they are
// static and have the same bytes each time.
func TestImageIsBuiltTheSameEachTime(t *testing.T) {
	if os.Getenv("IMAGE_TEST") == "" {
		t.Skip("links the operator twice; make test-image sets IMAGE_TEST=1")
	}
	env := environment(t)
	flags, err := os.ReadFile(repository + ".ci/goflags")
	if err != nil {
		t.Fatal(err)
	}
	if want := "GOFLAGS=" + strings.TrimSpace(string(flags)); !slices.Contains(env, want) {
		t.Errorf("the stage modules sets %q, want %s: with other flags everything is compiled again", env, want)
	}
	var built [2]map[string][]byte
	for i := range built {
		source, out := filepath.Join(t.TempDir(), "src"), t.TempDir()
		copySources(t, source)
		built[i] = map[string][]byte{}
		for program, stage := range map[string]string{"addon-operator": "program-source", "kubectl": "kubectl"} {
			script := strings.ReplaceAll(steps(t, stage), "/out/", out+"/")
			cmd := exec.Command("sh", "-euc", script)
			cmd.Dir, cmd.Env = source, append(append(os.Environ(), env...), "VERSION=v1.2.3", "COMMIT=0123abc", "DATE=2026-01-31T12:00:00Z", "TARGETARCH="+runtime.GOARCH, "KUBECTL="+argument(t, "kubectl", "KUBECTL"))
			if output, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", script, err, output)
			}
			if built[i][program], err = os.ReadFile(filepath.Join(out, "bin", program)); err != nil {
				t.Fatal(err)
			}
		}
		says, err := exec.Command(filepath.Join(out, "bin", "addon-operator"), "version", "-o", "json").Output()
		for _, part := range []string{`"v1.2.3"`, `"0123abc"`, `"2026-01-31T12:00:00Z"`} {
			if err != nil || !strings.Contains(string(says), part) {
				t.Errorf("it says %s, %v", says, err)
			}
		}
		says, err = exec.Command(filepath.Join(out, "bin", "kubectl"), "version", "--client").Output()
		kubectl := minorOf(t, repository+"testkit/devcluster/"+argument(t, "kubectl", "KUBECTL"))
		if err != nil || !strings.Contains(string(says), fmt.Sprintf("Client Version: v1.%d.", kubectl)) {
			t.Errorf("kubectl says %s, %v", says, err)
		}
	}
	for program, data := range built[0] {
		if !bytes.Equal(data, built[1][program]) {
			t.Errorf("two builds of one source of %s differ", program)
		}
		file, err := elf.NewFile(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range file.Progs {
			if p.Type == elf.PT_INTERP {
				t.Errorf("%s is not static", program)
			}
		}
	}
}

// The steps that take the program from a release take the one of the image's architecture, and only when it is the
// one whose sum the release names.
func TestImageOfARelease(t *testing.T) {
	releases, out := t.TempDir(), t.TempDir()
	script := strings.NewReplacer("/out", out, "/release", releases).Replace(steps(t, "program-release"))
	play := func(arch string) (string, error) {
		cmd := exec.Command("sh", "-euc", script)
		cmd.Env = append(os.Environ(), "VERSION=v1.2.3", "TARGETARCH="+arch)
		output, err := cmd.CombinedOutput()
		return string(output), err
	}
	pack := exec.Command("sh", "-euc", `for arch in amd64 arm64; do echo "$arch" >addon-operator; tar -czf addon-operator_v1.2.3_linux_$arch.tar.gz addon-operator; done; rm addon-operator; sha256sum * >SHA256SUMS`)
	pack.Dir = releases
	if output, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		output, err := play(arch)
		program, _ := os.ReadFile(filepath.Join(out, "bin", "addon-operator")) // an error is another content
		if err != nil || string(program) != arch+"\n" {
			t.Errorf("%s: it took %q, %v\n%s", arch, program, err, output)
		}
	}
	if output, err := play("riscv64"); err == nil {
		t.Errorf("a program that is not in the release: %s", output)
	}
	if err := os.Rename(filepath.Join(releases, "addon-operator_v1.2.3_linux_arm64.tar.gz"), filepath.Join(releases, "addon-operator_v1.2.3_linux_amd64.tar.gz")); err != nil {
		t.Fatal(err)
	}
	if output, err := play("amd64"); err == nil || !strings.Contains(output, "FAILED") {
		t.Errorf("another program than the release names: %v\n%s", err, output)
	}
}

// copySources copies what COPY . . would: all that .dockerignore leaves.
func copySources(t *testing.T, to string) {
	t.Helper()
	ignored := dockerignore(t)
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, repository)
		switch {
		case name != "" && ignored(name) && entry.IsDir():
			return fs.SkipDir
		case name == "" || ignored(name):
			return nil
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		case !entry.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), data, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// dockerignore reports whether a path is left out of what COPY . . sees. It knows the two
// forms that the file uses: a name at the top, and **/ with a pattern for the last element.
func dockerignore(t *testing.T) func(name string) bool {
	t.Helper()
	data, err := os.ReadFile(repository + ".dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	var patterns []string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			patterns = append(patterns, line)
		}
	}
	return func(name string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool {
			anywhere, ok := strings.CutPrefix(pattern, "**/")
			if !ok {
				return name == pattern
			}
			matched, err := filepath.Match(anywhere, filepath.Base(name))
			return matched && err == nil
		})
	}
}

// Nothing that the program is made of is left out of the image's sources, and what is not
// part of it does not travel to the builder: neither history nor programs nor tests.
func TestSourcesOfTheImage(t *testing.T) {
	ignored := dockerignore(t)
	for _, name := range []string{"go.mod", "go.sum", "LICENSE", "cmd", "actors", "testkit", "testkit/devcluster", "testkit/devcluster/ldflags", "server/page.html", "cmd/bring/skeleton"} {
		if _, err := os.Stat(repository + name); err != nil || ignored(name) {
			t.Errorf("%s is left out, or is not there: %v", name, err)
		}
	}
	for _, name := range []string{".git", ".run", "bin", "docs", "server/server_test.go", "server/testdata"} {
		if !ignored(name) {
			t.Errorf("%s goes into the image's sources", name)
		}
	}
	output, err := exec.Command("go", "list", "-C", repository, "-deps", "-f", `{{if not .Standard}}{{$dir := .Dir}}{{if eq .Module.Path "addon-operator"}}{{range .GoFiles}}{{$dir}}/{{.}} {{end}}{{range .EmbedFiles}}{{$dir}}/{{.}} {{end}}{{end}}{{end}}`, "./cmd/addon-operator").Output()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	files := strings.Fields(string(output))
	if len(files) < 100 {
		t.Errorf("the program has only %d files", len(files))
	}
	for _, file := range files {
		for name := strings.TrimPrefix(file, root+"/"); name != "."; name = filepath.Dir(name) {
			if ignored(name) {
				t.Errorf("%s is part of the program and is left out", file)
			}
		}
	}
}
