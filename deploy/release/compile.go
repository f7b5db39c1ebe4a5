package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// program is the name of the program, of its package in cmd/, and the beginning of all names of
// files.
const program = "addon-operator"

// platform is an operating system and an architecture, as Go names them.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// parsePlatforms reads platforms as "linux/amd64 darwin/arm64", each once, in their order. Whether
// Go knows them shows the build.
func parsePlatforms(text string) (all []platform, err error) {
	for _, word := range strings.Fields(text) {
		system, arch, ok := strings.Cut(word, "/")
		if !ok || system == "" || arch == "" {
			return nil, fmt.Errorf("platform %q: write it as linux/amd64", word)
		}
		if p := (platform{system, arch}); !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no platforms: write them as linux/amd64, separated by spaces")
	}
	return all, nil
}

// binary is a compiled program for a platform. info is what the linker has recorded in it: its
// modules.
type binary struct {
	platform
	path string
	info *debug.BuildInfo
}

// name is what all files of this binary begin with.
func (r release) name(p platform) string {
	return fmt.Sprintf("%s_%s_%s_%s", program, r.version, p.os, p.arch)
}

// buildEnvironment is the environment of a build. A variable of the machine that changes the code
// which the compiler makes is overridden, so that the result is the same everywhere; the caches of
// Go stay where the machine has them. Of two values of one variable the last counts.
func (r release) buildEnvironment(p platform) ([]string, error) {
	flags, err := os.ReadFile(filepath.Join(r.root, ".ci/goflags"))
	if err != nil {
		return nil, err
	}
	return append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+strings.TrimSpace(string(flags)), "GOOS="+p.os, "GOARCH="+p.arch,
		"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOWORK=off", "GOFIPS140=off"), nil
}

// compile builds the program for a platform. The empty build ID leaves only the code, the flags and
// the version to decide about its bytes.
func (r release) compile(ctx context.Context, p platform, path string) (binary, error) {
	env, err := r.buildEnvironment(p)
	if err != nil {
		return binary{}, err
	}
	link := fmt.Sprintf("-s -w -buildid= -X main.version=%s -X main.commit=%s -X main.date=%s", r.version, r.commit, r.date.Format(time.RFC3339))
	if _, err := output(ctx, r.root, env, "go", "build", "-ldflags", link, "-o", path, "./cmd/"+program); err != nil {
		return binary{}, err
	}
	info, err := buildinfo.ReadFile(path)
	return binary{p, path, info}, err
}

// writeCompletions writes completions for shells, which the program prints itself. If the release
// has no program that runs on this machine, one is built for it.
func (r release) writeCompletions(ctx context.Context, programs []binary) error {
	// The release may be for other platforms than that of this machine.
	here := platform{runtime.GOOS, runtime.GOARCH}
	i := slices.IndexFunc(programs, func(b binary) bool { return b.platform == here })
	var path string
	if i >= 0 {
		path = programs[i].path
	} else {
		dir, err := os.MkdirTemp("", "release-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		path = filepath.Join(dir, program)
		if _, err := r.compile(ctx, here, path); err != nil {
			return err
		}
	}
	var files []file
	for _, shell := range []string{"bash", "fish", "powershell", "zsh"} {
		text, err := exec.CommandContext(ctx, path, "completion", shell).Output()
		if err != nil {
			return fmt.Errorf("completion %s: %w", shell, err)
		}
		files = append(files, file{name: program + "." + shell, data: text})
	}
	return r.writeArchive(fmt.Sprintf("%s_%s_completions.tar.gz", program, r.version), files)
}

// output runs a command in dir and returns its stdout without the last line ends; the error has its
// stderr. A nil env is that of this process.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var complaint bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stderr = dir, env, &complaint
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, &complaint)
	}
	return strings.TrimRight(string(text), "\n"), nil
}
