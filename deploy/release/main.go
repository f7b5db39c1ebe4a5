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
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is what is asked for.
type release struct {
	version   string // as v0.1.0
	commit    string // hash of the commit; with -dirty when the work tree differs from it; empty without history
	date      time.Time
	root      string // of the repository
	out       string
	platforms []platform
	image     string // repository of the image
	downloads string // URL below which a version's directory with its archives lies
}

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

func parse(ctx context.Context, args []string) (r release, licencesOnly bool, err error) {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&r.version, "version", "", "semantic version of the release, such as v0.1.0")
	flags.StringVar(&r.root, "root", ".", "root of the repository")
	flags.StringVar(&r.out, "out", "dist", "directory for the release; what is in it is deleted")
	flags.StringVar(&r.image, "image", "addon-operator", "repository of the image, without a tag")
	flags.StringVar(&r.downloads, "downloads", "https://example.com/addon-operator/releases/download", "where the archives will be: below the version in this URL")
	flags.StringVar(&r.commit, "commit", "", "hash of the commit (default: what git reports)")
	platforms := flags.String("platforms", "linux/amd64 linux/arm64 darwin/amd64 darwin/arm64", "what to build for")
	date := flags.String("date", "", "time of everything in the release, in RFC 3339 (default: that of the commit)")
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

// checkVersion accepts semantic versions with a leading v. Build metadata is refused: + cannot stand in the tag of an
// image.
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

// commitOf is empty where there is no git or no history, as in an unpacked archive of the source.
func commitOf(ctx context.Context, root string) string {
	hash, err := output(ctx, root, nil, "git", "rev-parse", "HEAD")
	if err != nil {
		return ""
	}
	if changes, err := output(ctx, root, nil, "git", "status", "--porcelain"); err != nil || changes != "" {
		return hash + "-dirty"
	}
	return hash
}

// dateOf is the given date, that of SOURCE_DATE_EPOCH, or that of the commit.
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
			return time.Time{}, fmt.Errorf("the time of the release is unknown, because git cannot determine that of the commit: set SOURCE_DATE_EPOCH: %w", err)
		}
	}
	var epoch int64
	if _, err := fmt.Sscanf(seconds+"\n", "%d\n", &epoch); err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH %q is not a number of seconds since 1970: %w", seconds, err)
	}
	return time.Unix(epoch, 0).UTC(), nil
}

// build writes the release to a directory next to r.out, which takes its place when all is there.
func (r release) build(ctx context.Context) (err error) {
	target := r.out
	if err := mayReplace(target); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	if r.out, err = os.MkdirTemp(filepath.Dir(target), ".release-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.out)) }()
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

// mayReplace refuses a directory that is no release: what is there would be deleted.
func mayReplace(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, sumsFile)); err != nil {
		return fmt.Errorf("%s is not empty and has no %s, so it is not a release: set another directory with -out, or empty it", dir, sumsFile)
	}
	return nil
}

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
