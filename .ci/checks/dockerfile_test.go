package checks

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/moby/buildkit/frontend/dockerui"
	"github.com/moby/buildkit/solver/pb"
	"github.com/opencontainers/go-digest"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"
)

const repository = "../../"

// images answers for the registry, so that a check needs none: each image exists for each platform.
type images struct{}

func (images) ResolveImageConfig(_ context.Context, ref string, opt sourceresolver.Opt) (string, digest.Digest, []byte, error) {
	config := ocispecs.Image{Platform: ocispecs.Platform{OS: "linux", Architecture: "amd64"}}
	if opt.ImageOpt != nil && opt.ImageOpt.Platform != nil {
		config.Platform = *opt.ImageOpt.Platform
	}
	config.Config.Env = []string{"PATH=/bin"}
	text, err := json.Marshal(config)
	return ref, digest.FromBytes(text), text, err
}

// Docker's own linter has nothing to say, whichever program the image gets, and it knows each platform.
func TestDockerfileIsLinted(t *testing.T) {
	for _, dockerfile := range []struct{ name, text string }{
		{"the Dockerfile", read(t, "Dockerfile")},
		{"the Dockerfile with the programs of a release", strings.Replace(read(t, "Dockerfile"), "ARG PROGRAM=source", "ARG PROGRAM=release", 1)},
	} {
		for _, arch := range []string{"amd64", "arm64"} {
			if found := lint(t, dockerfile.text, arch); found != "" {
				t.Errorf("%s for %s: %s", dockerfile.name, arch, found)
			}
		}
	}
	// The linter reports mistakes.
	if found := lint(t, "from alpine AS Base\nMAINTAINER me\n", "amd64"); !strings.Contains(found, "StageNameCasing") || !strings.Contains(found, "MaintainerDeprecated") {
		t.Errorf("the linter says %q", found)
	}
}

func lint(t *testing.T, text, arch string) string {
	t.Helper()
	platform := ocispecs.Platform{OS: "linux", Architecture: arch}
	source := llb.NewSourceMap(nil, "Dockerfile", "dockerfile", []byte(text))
	source.Definition = &llb.Definition{} // of where the file comes from; the linter only copies it
	found, err := dockerfile2llb.DockerfileLint(t.Context(), []byte(text), dockerfile2llb.ConvertOpt{
		Config:         dockerui.Config{BuildPlatforms: []ocispecs.Platform{{OS: "linux", Architecture: "amd64"}}},
		TargetPlatform: &platform,
		MetaResolver:   images{},
		SourceMap:      source,
	})
	if err != nil {
		return err.Error()
	}
	if found.Error != nil {
		return found.Error.Message
	}
	var says strings.Builder
	for _, w := range found.Warnings {
		says.WriteString("\n" + w.RuleName + ": " + w.Detail + lines(w.Location))
	}
	return says.String()
}

func lines(l *pb.Location) string {
	if len(l.GetRanges()) == 0 {
		return ""
	}
	return fmt.Sprintf(" (line %d)", l.GetRanges()[0].GetStart().GetLine())
}

// A tag may be another image tomorrow: images of others are named by digest, too, and by a tag, which
// dependency updates read.
func TestBaseImagesHaveDigests(t *testing.T) {
	text := read(t, "Dockerfile")
	bases := regexp.MustCompile(`(?m)^FROM (?:--platform=\S+ )?(\S+)`).FindAllStringSubmatch(text, -1)
	stages := regexp.MustCompile(`(?m)^FROM .* AS (\S+)$`).FindAllStringSubmatch(text, -1)
	own := map[string]bool{"program-${PROGRAM}": true, "scratch": true}
	for _, s := range stages {
		own[s[1]] = true
	}
	others := 0
	for _, b := range bases {
		if own[b[1]] {
			continue
		}
		others++
		if !regexp.MustCompile(`^[a-z]+:[0-9a-z.-]+@sha256:[0-9a-f]{64}$`).MatchString(b[1]) {
			t.Errorf("%s is not named by tag and digest", b[1])
		}
	}
	if others != 2 {
		t.Errorf("%d images of others", others)
	}
	// The label names what the last FROM names.
	last := regexp.MustCompile(`(?m)^FROM ([a-z]+:[0-9.]+)@`).FindStringSubmatch(text)
	if len(last) == 0 || !strings.Contains(text, `org.opencontainers.image.base.name="docker.io/library/`+last[1]+`"`) {
		t.Errorf("the label base.name does not name %s", last)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(repository + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
