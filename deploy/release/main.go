package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
)

// main ends with code 1 after any error: a workflow stops then.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is one release, as the flags describe it. Its methods write its files to out.
type release struct {
	version string // as v0.1.0
	// commit is the hash of the commit, with -dirty when the work tree differs from it; "" without
	// history.
	commit string
	// date is the time of all files in archives, in UTC.
	date      time.Time
	root      string // of the repository
	out       string
	platforms []platform
	image     string // repository of the image
	downloads string // URL that has a directory with the archives for each version
}

// run is the program without the process, for tests.
func run(ctx context.Context, args []string) error {
	r, licencesOnly, err := parse(ctx, args)
	if err != nil {
		return err
	}
	if licencesOnly {
		return r.printLicences(ctx)
	}
	return r.build(ctx)
}

// parse reads the flags, makes paths absolute, and finds out commit and time. For the list of
// licences no version is needed, nor a commit.
func parse(ctx context.Context, args []string) (r release, licencesOnly bool, err error) {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&r.version, "version", "", "semantic version of the release, such as v0.1.0")
	flags.StringVar(&r.root, "root", ".", "root of the repository")
	flags.StringVar(&r.out, "out", "dist", "directory for the release; its content is deleted")
	flags.StringVar(&r.image, "image", "addon-operator", "repository of the image, without a tag")
	flags.StringVar(&r.downloads, "downloads", "https://example.com/addon-operator/releases/download", "URL of the archives, below which each version has a directory")
	flags.StringVar(&r.commit, "commit", "", "hash of the commit (default: from git)")
	platforms := flags.String("platforms", "linux/amd64 linux/arm64 darwin/amd64 darwin/arm64", "platforms to build for")
	date := flags.String("date", "", "time of all files in the release, in RFC 3339 (default: that of the commit)")
	flags.BoolVar(&licencesOnly, "licences", false, "only print the licences of all modules in the programs")
	if err := flags.Parse(args); err != nil {
		return r, false, err
	}
	if r.platforms, err = parsePlatforms(*platforms); err != nil {
		return r, false, err
	}
	for _, path := range []*string{&r.root, &r.out} {
		if *path, err = filepath.Abs(*path); err != nil {
			return r, false, err
		}
	}
	if licencesOnly {
		return r, true, nil
	}
	if err := checkVersion(r.version); err != nil {
		return r, false, err
	}
	if r.commit == "" {
		r.commit = commitOf(ctx, r.root)
	}
	r.date, err = dateOf(ctx, r.root, *date)
	return r, false, err
}

// checkVersion accepts semantic versions with a leading v. It refuses build metadata, because the
// tag of an image cannot contain a +. The errors name VERSION, which people give to make.
func checkVersion(version string) error {
	const fix = "write a semantic version such as v0.1.0 or v0.2.0-rc.1"
	bare, hasV := strings.CutPrefix(version, "v")
	parsed, err := semver.StrictNewVersion(bare)
	switch {
	case version == "":
		return fmt.Errorf("VERSION is missing: %s, for example make release VERSION=v0.1.0", fix)
	case !hasV:
		return fmt.Errorf("VERSION %q does not begin with v: %s", version, fix)
	case err != nil:
		return fmt.Errorf("VERSION %q: %w: %s", version, err, fix)
	case parsed.Metadata() != "":
		return fmt.Errorf("VERSION %q has build metadata, which the tag of an image cannot have: %s", version, fix)
	}
	return nil
}

// bare is the version as charts and images have it: without v.
func (r release) bare() string { return strings.TrimPrefix(r.version, "v") }

// commitOf is the hash of the commit, with -dirty when files differ from it. It is "" where there
// is no git or no history, as in an unpacked archive of the source.
func commitOf(ctx context.Context, root string) string {
	hash, err := output(ctx, root, nil, "git", "rev-parse", "HEAD")
	if err != nil {
		return ""
	}
	// Untracked files count: they may be compiled.
	if changes, err := output(ctx, root, nil, "git", "status", "--porcelain"); err != nil || changes != "" {
		return hash + "-dirty"
	}
	return hash
}

// dateOf is the given date, or that of SOURCE_DATE_EPOCH, by which distributions set the time of
// reproducible builds, or that of the commit. There is no default: the present would differ each
// time.
func dateOf(ctx context.Context, root, given string) (time.Time, error) {
	if given != "" {
		date, err := time.Parse(time.RFC3339, given)
		if err != nil {
			return date, fmt.Errorf("-date %q: write it as 2026-01-31T12:00:00Z", given)
		}
		return date.UTC(), nil
	}
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if seconds == "" {
		var err error
		if seconds, err = output(ctx, root, nil, "git", "log", "-1", "--format=%ct"); err != nil {
			return time.Time{}, fmt.Errorf("the time of the release is unknown, because git does not report that of the commit: set SOURCE_DATE_EPOCH: %w", err)
		}
	}
	epoch, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH %q is not a number of seconds since 1970: %w", seconds, err)
	}
	return time.Unix(epoch, 0).UTC(), nil
}

// build writes the release to a hidden directory next to r.out, which takes its place when all is
// there: a build that fails leaves the last release as it is.
func (r release) build(ctx context.Context) (err error) {
	target := r.out
	if err := mayReplace(target); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	// In the same file system, so that the rename below is one step.
	if r.out, err = os.MkdirTemp(filepath.Dir(target), ".release-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.out)) }()
	// MkdirTemp makes a directory that only its owner may read.
	if err := os.Chmod(r.out, 0o755); err != nil {
		return err
	}
	if err := r.fill(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	if err := os.Rename(r.out, target); err != nil {
		return err
	}
	fmt.Printf("release: %s of commit %s is in %s\n", r.version, cmp.Or(r.commit, "unknown"), target)
	return nil
}

// mayReplace refuses a directory that is not empty and no release: its content would be deleted.
func mayReplace(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, sumsFile)); err != nil {
		return fmt.Errorf("%s is not empty and has no %s, so it is not a release: choose another directory with -out, or empty it", dir, sumsFile)
	}
	return nil
}

// fill writes all files of the release to r.out. The order of the steps matters: archives contain
// the licences, the manifest for krew has the sums of archives, and the sums are those of all
// files.
func (r release) fill(ctx context.Context) error {
	work, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	var programs []binary
	for _, p := range r.platforms {
		fmt.Printf("release: building %s\n", p)
		program, err := r.compile(ctx, p, filepath.Join(work, p.os+"-"+p.arch))
		if err != nil {
			return err
		}
		programs = append(programs, program)
	}
	// After the builds, which have fetched all modules into the cache.
	licences, err := r.licences(ctx)
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return r.writeLicences(licences) },
		func() error { return r.writeArchives(programs) },
		func() error { return r.writeBills(programs, licences) },
		func() error { return r.writeCompletions(ctx, programs) },
		r.writeChart,
		r.writeManifests,
		r.writeKrew,
		r.writeSums,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
