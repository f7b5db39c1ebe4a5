package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/yaml"
)

const repository = "../.."

func TestVersionIsSemantic(t *testing.T) {
	for _, version := range []string{"v0.1.0", "v1.22.333", "v0.2.0-rc.1"} {
		if err := checkVersion(version); err != nil {
			t.Error(err)
		}
	}
	for version, says := range map[string]string{
		"":              "VERSION is missing: write a semantic version such as v0.1.0",
		"0.1.0":         `VERSION "0.1.0" does not begin with v`,
		"v0.1":          `VERSION "v0.1"`,
		"v01.0.0":       `VERSION "v01.0.0"`,
		"va.b.c":        `VERSION "va.b.c"`,
		"v1.0.0+meta":   "build metadata",
		"v1.0.0 -X a=b": `VERSION "v1.0.0 -X a=b"`,
		"8d54c38-dirty": "does not begin with v",
	} {
		if err := checkVersion(version); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %s", version, err, says)
		}
	}
}

func TestWrongArguments(t *testing.T) {
	for says, args := range map[string][]string{
		`platform "linux"`:                        {"-version", "v1.0.0", "-platforms", "linux"},
		"no platform":                             {"-version", "v1.0.0", "-platforms", " "},
		`-date "yesterday"`:                       {"-version", "v1.0.0", "-date", "yesterday"},
		"is not empty and has no SHA256SUMS":      {"-version", "v1.0.0", "-date", "2026-01-31T12:00:00Z", "-out", "."},
		"flag provided but not defined: -verbose": {"-verbose"},
	} {
		if err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %s", args, err, says)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "noon")
	if err := run(t.Context(), []string{"-version", "v1.0.0"}); err == nil || !strings.Contains(err.Error(), `SOURCE_DATE_EPOCH "noon"`) {
		t.Error(err)
	}
}

// What the machine orders, dates and owns is not in an archive.
func TestArchiveDependsOnFilesAndTimeAlone(t *testing.T) {
	date := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	a, b := file{name: "a", data: []byte("1")}, file{name: "b", data: []byte("2"), executable: true}
	one, err := archive([]file{a, b}, date)
	other, err2 := archive([]file{b, a}, date)
	if err != nil || err2 != nil || !bytes.Equal(one, other) {
		t.Errorf("the order of files matters; %v, %v", err, err2)
	}
	path := filepath.Join(t.TempDir(), "a.tar.gz")
	if err := os.WriteFile(path, one, 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := unpack(path)
	if err != nil || len(files) != 2 || files[0].name != "a" || files[0].executable || !files[1].executable || string(files[1].data) != "2" {
		t.Errorf("%+v, %v", files, err)
	}
}

// The licence of each module is known, on each platform.
func TestLicences(t *testing.T) {
	if testing.Short() {
		t.Skip("it lists the modules of four platforms; make test-release does")
	}
	platforms, err := parsePlatforms("linux/amd64 linux/arm64 darwin/amd64 darwin/arm64")
	if err != nil {
		t.Fatal(err)
	}
	all, err := release{root: repository, platforms: platforms}.licences(t.Context())
	if err != nil || len(all) < 100 {
		t.Errorf("%d modules, %v", len(all), err)
	}
}

// A module that must not be distributed without its source, or without a licence at all, stops a release.
func TestLicencesThatAreRefused(t *testing.T) {
	for says, files := range map[string]map[string]string{
		"no licence was recognised among its files []": {"README": "free for all"},
		"LICENSE: only 0 % of it":                      {"LICENSE": "do as you like"},
		"licence CC-BY-SA-4.0 is not one of those":     {"COPYING": "https://creativecommons.org/licenses/by-sa/4.0/"},
	} {
		dir := t.TempDir()
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var l licence
		if err := l.read(dir); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %s", err, says)
		}
	}
}

// The release is built twice, the second time from a copy of the sources elsewhere: each byte is the same. Then it
// is used: sums, programs, bills, chart, manifests and the manifest for krew are what they say. RELEASE_PLATFORMS
// names the platforms; by default it is that of this machine.
func TestReleaseIsTheSameEachTime(t *testing.T) {
	if testing.Short() {
		t.Skip("links the program twice")
	}
	platforms := os.Getenv("RELEASE_PLATFORMS")
	if platforms == "" {
		platforms = runtime.GOOS + "/" + runtime.GOARCH
	}
	const commit, date = "0123456789abcdef0123456789abcdef01234567", "2026-01-31T12:00:00Z"
	copied := copySources(t)
	var outs []string
	for _, root := range []string{repository, copied} {
		out := filepath.Join(t.TempDir(), "dist")
		err := run(t.Context(), []string{
			"-root", root, "-out", out, "-version", "v1.2.3-rc.1", "-commit", commit, "-date", date, "-platforms", platforms,
			"-image", "registry.example.com/team/addon-operator", "-downloads", "https://example.com/get",
		})
		if err != nil {
			t.Fatal(err)
		}
		outs = append(outs, out)
	}
	first, second := contents(t, outs[0]), contents(t, outs[1])
	for name, data := range first {
		if !bytes.Equal(data, second[name]) {
			t.Errorf("two builds of %s differ", name)
		}
	}
	wanted := []string{"SHA256SUMS", licencesFile, "addon-operator-1.2.3-rc.1.tgz", "addon-operator_v1.2.3-rc.1_completions.tar.gz", "addon-operator_v1.2.3-rc.1_manifests.tar.gz", "addon.yaml"}
	for _, platform := range strings.Fields(platforms) {
		name := "addon-operator_v1.2.3-rc.1_" + strings.ReplaceAll(platform, "/", "_")
		wanted = append(wanted, name+".tar.gz", name+".spdx.json")
		t.Run(platform, func(t *testing.T) { checkProgram(t, outs[0], name, platform) })
	}
	for _, name := range wanted {
		if first[name] == nil {
			t.Errorf("there is no %s", name)
		}
	}
	if len(first) != len(wanted) || len(second) != len(wanted) {
		t.Errorf("%d and %d files, want %d", len(first), len(second), len(wanted))
	}
	t.Run("sums", func(t *testing.T) { checkSums(t, first) })
	t.Run("chart", func(t *testing.T) { checkChart(t, filepath.Join(outs[0], "addon-operator-1.2.3-rc.1.tgz")) })
	t.Run("manifests", func(t *testing.T) {
		checkManifests(t, filepath.Join(outs[0], "addon-operator_v1.2.3-rc.1_manifests.tar.gz"))
	})
	t.Run("krew", func(t *testing.T) { checkKrew(t, first) })
	for _, f := range unpacked(t, filepath.Join(outs[0], "addon-operator_v1.2.3-rc.1_completions.tar.gz")) {
		if !bytes.Contains(f.data, []byte("addon-operator")) {
			t.Errorf("%s does not complete addon-operator", f.name)
		}
	}
}

func unpacked(t *testing.T, path string) []file {
	t.Helper()
	files, err := unpack(path)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, entry := range entries {
		if all[entry.Name()], err = os.ReadFile(filepath.Join(dir, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// copySources copies what git would, by name: hidden folders and what was built stay.
func copySources(t *testing.T) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "elsewhere")
	root, err := os.OpenRoot(repository)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", ".run", "bin", "dist", "testdata"}, name):
			return fs.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		case !entry.Type().IsRegular() || name == ".git":
			return nil
		}
		data, err := root.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), data, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// checkProgram looks at the program in an archive and at its bill of materials.
func checkProgram(t *testing.T, out, name, platform string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), program)
	var inArchive []string
	for _, f := range unpacked(t, filepath.Join(out, name+".tar.gz")) {
		inArchive = append(inArchive, f.name)
		if f.name == program {
			if err := os.WriteFile(path, f.data, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	if want := []string{"LICENSE", licencesFile, program}; !slices.Equal(inArchive, want) {
		t.Errorf("the archive has %q, want %q", inArchive, want)
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if settings["CGO_ENABLED"] != "0" || settings["GOOS"]+"/"+settings["GOARCH"] != platform || settings["-trimpath"] != "true" {
		t.Errorf("it was built with %v", settings)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.Open(filepath.Join(out, name+".spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	bill, err := spdxjson.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	if bill.SPDXVersion != spdx.Version || bill.CreationInfo.Created != "2026-01-31T12:00:00Z" || len(bill.Packages) != len(info.Deps)+2 {
		t.Errorf("%s of %s with %d packages, the program has %d modules", bill.SPDXVersion, bill.CreationInfo.Created, len(bill.Packages), len(info.Deps))
	}
	if sum := bill.Packages[0].PackageChecksums[0].Value; sum != fmt.Sprintf("%x", sha256.Sum256(data)) {
		t.Errorf("the bill is of a program with the sum %s", sum)
	}
	ids := map[string]bool{}
	for _, p := range bill.Packages {
		if p.PackageVersion == "" || p.PackageLicenseDeclared == noAssertion || ids[string(p.PackageSPDXIdentifier)] {
			t.Errorf("%s %s has the identifier %s and the licence %s", p.PackageName, p.PackageVersion, p.PackageSPDXIdentifier, p.PackageLicenseDeclared)
		}
		ids[string(p.PackageSPDXIdentifier)] = true
	}
	if platform != runtime.GOOS+"/"+runtime.GOARCH {
		return
	}
	says, err := exec.Command(path, "version", "-o", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(says, &v); err != nil || v["version"] != "v1.2.3-rc.1" || v["commit"] != "0123456789abcdef0123456789abcdef01234567" || v["date"] != "2026-01-31T12:00:00Z" {
		t.Errorf("it says %s, %v", says, err)
	}
}

// checkSums does what sha256sum -c does.
func checkSums(t *testing.T, files map[string][]byte) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(string(files[sumsFile])), "\n")
	if len(lines) != len(files)-1 {
		t.Errorf("%d sums of %d files", len(lines), len(files))
	}
	for _, line := range lines {
		sum, name, _ := strings.Cut(line, "  ")
		if sum != fmt.Sprintf("%x", sha256.Sum256(files[name])) {
			t.Errorf("the sum of %s is another", name)
		}
	}
}

// checkChart renders the packaged chart with no values of ours.
func checkChart(t *testing.T, path string) {
	t.Helper()
	c, err := loader.LoadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if c.Metadata.Version != "1.2.3-rc.1" || c.Metadata.AppVersion != "1.2.3-rc.1" {
		t.Errorf("version %s, of the program %s", c.Metadata.Version, c.Metadata.AppVersion)
	}
	values, err := chartutil.ToRenderValues(c, nil, chartutil.ReleaseOptions{Name: "addon-operator", Namespace: "addon-operator"}, chartutil.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(c, values)
	if err != nil {
		t.Fatal(err)
	}
	if text := files["addon-operator/templates/deployment.yaml"]; !strings.Contains(text, `image: "registry.example.com/team/addon-operator:1.2.3-rc.1"`) {
		t.Errorf("the Deployment has another image:\n%s", text)
	}
}

func checkManifests(t *testing.T, path string) {
	t.Helper()
	files := unpacked(t, path)
	if len(files) < 3 {
		t.Errorf("%d files", len(files))
	}
	for _, f := range files {
		text := string(f.data)
		if strings.Contains(text, "0.1.0") || !strings.Contains(text, "helm.sh/chart: addon-operator-1.2.3-rc.1\n") {
			t.Errorf("%s has another version", f.name)
		}
		if strings.Contains(text, "kind: Deployment\n") && !strings.Contains(text, `image: "registry.example.com/team/addon-operator:1.2.3-rc.1"`) {
			t.Errorf("%s has another image", f.name)
		}
	}
}

func checkKrew(t *testing.T, files map[string][]byte) {
	t.Helper()
	var plugin krewPlugin
	if err := yaml.UnmarshalStrict(files["addon.yaml"], &plugin); err != nil {
		t.Fatal(err)
	}
	if len(plugin.Spec.Platforms) == 0 || len(plugin.Spec.ShortDescription) > 50 {
		t.Errorf("%+v", plugin)
	}
	for _, p := range plugin.Spec.Platforms {
		name, ok := strings.CutPrefix(p.URI, "https://example.com/get/v1.2.3-rc.1/")
		if !ok || files[name] == nil || p.SHA256 != fmt.Sprintf("%x", sha256.Sum256(files[name])) {
			t.Errorf("%+v", p)
		}
	}
}
