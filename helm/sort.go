package helm

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"strconv"
	"strings"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/helm/manifest"
)

// sorted is what templates have printed, in Helm's order. Each document is parsed once: Helm's own
// way to the same result takes half of the time that an operator needs to start when all releases
// are up to date.
type sorted struct {
	hooks     []*release.Hook
	manifests []releaseutil.Manifest
	// parsed are the objects of each of the manifests, or why there are none.
	parsed []parsed
}

type parsed struct {
	objects []Object
	ends    []Object // those of them that end by themselves
	errs    []error
}

// headMark is before the number of a document in the stub that Helm sorts in its place.
const headMark = " # "

// sortFiles sorts rendered files as Helm does. Helm parses whole documents for that, and values may
// have made them large, so it gets stubs with the fields that it looks at, each with the number of
// its document. If anything cannot be parsed, Helm gets the documents themselves, so that the error
// is in its own words.
func sortFiles(files map[string]string) (*sorted, error) {
	for _, name := range sortedKeys(files) {
		if err := manifest.Check(files[name]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	var documents []string
	var contents []parsed
	stubs := make(map[string]string, len(files))
	for _, name := range sortedKeys(files) {
		if strings.HasPrefix(path.Base(name), "_") {
			continue // as Helm does
		}
		var stub strings.Builder
		for _, document := range manifest.Split(files[name]) {
			head, content, err := parseOnce(document)
			if err != nil {
				return sortWhole(files)
			}
			fmt.Fprintf(&stub, "---\n%s%s%d\n", head, headMark, len(documents))
			documents, contents = append(documents, document), append(contents, content)
		}
		stubs[name] = stub.String()
	}
	hooks, manifests, err := releaseutil.SortManifests(stubs, nil, releaseutil.InstallOrder)
	if err != nil {
		return sortWhole(files)
	}
	s := &sorted{hooks: hooks, manifests: manifests, parsed: make([]parsed, len(manifests))}
	for _, h := range hooks {
		n, err := stubNumber(h.Manifest)
		if err != nil {
			return nil, err
		}
		h.Manifest = documents[n]
	}
	for i := range manifests {
		n, err := stubNumber(manifests[i].Content)
		if err != nil {
			return nil, err
		}
		manifests[i].Content, s.parsed[i] = documents[n], contents[n]
	}
	return s, nil
}

// sortWhole lets Helm parse everything. It is also the way for a manifest that cannot be sorted:
// its error is the one that a helm command would print.
func sortWhole(files map[string]string) (*sorted, error) {
	hooks, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return nil, err
	}
	s := &sorted{hooks: hooks, manifests: manifests}
	for _, m := range manifests {
		s.parsed = append(s.parsed, parse(m.Content))
	}
	return s, nil
}

// stubNumber returns the index of the document that a stub replaces. The last mark counts, since
// a name in the head may have one.
func stubNumber(stub string) (int, error) {
	n, err := strconv.Atoi(stub[strings.LastIndex(stub, headMark)+len(headMark):])
	if err != nil {
		return 0, fmt.Errorf("bug: a document is lost: %w", err)
	}
	return n, nil
}

// parseOnce parses a document: its head for Helm, in one line, and its objects.
func parseOnce(document string) (head []byte, content parsed, err error) {
	tree, data, err := manifest.Tree(document)
	if err != nil {
		return nil, parsed{}, err
	}
	head = data
	if fields, ok := tree.(map[string]any); ok {
		if head, err = headOf(fields); err != nil {
			return nil, parsed{}, err
		}
	}
	if manifest.IsStream(document) {
		return head, parse(document), nil
	}
	objects, err := manifest.FromTree(tree)
	return head, checked(objects, err), nil
}

// headOf keeps what releaseutil.SimpleHead reads, unchanged: Helm reads numbers as texts, and
// ignores the case of keys.
func headOf(fields map[string]any) ([]byte, error) {
	head := only(fields, "apiVersion", "kind", "metadata")
	for key, value := range head {
		if metadata, ok := value.(map[string]any); ok && strings.EqualFold(key, "metadata") {
			head[key] = only(metadata, "name", "annotations")
		}
	}
	return json.Marshal(head)
}

// only copies the fields with some names, in any case of letters.
func only(fields map[string]any, names ...string) map[string]any {
	kept := maps.Clone(fields)
	maps.DeleteFunc(kept, func(key string, _ any) bool {
		for _, name := range names {
			if strings.EqualFold(key, name) {
				return false
			}
		}
		return true
	})
	return kept
}

// checked keeps only the names of objects: the documents may be large, and renders stay in memory.
// Errors are kept as well, so that all documents that are wrong are named at once (checkObjects).
func checked(found []*unstructured.Unstructured, err error) (p parsed) {
	if err != nil {
		return parsed{errs: []error{err}}
	}
	for _, u := range found {
		if err := checkObject(u); err != nil {
			p.errs = append(p.errs, err)
			continue
		}
		p.objects = append(p.objects, manifest.Of(u))
		if ends(u) {
			p.ends = append(p.ends, manifest.Of(u))
		}
	}
	return p
}

// parse reads the objects of a manifest.
func parse(text string) parsed { return checked(manifest.Parse(text)) }
