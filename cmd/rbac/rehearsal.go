package rbac

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"
)

// rehearsal stands in for the API server while Helm applies a chart: it knows kinds,
// holds no objects, and refuses to store any. What Helm would create is read from the
// release record, which Helm writes before everything else; what templates look up is
// seen from what is asked. So the charts are read by the very code that deploys them, and
// only package helm needs to know Helm.
type rehearsal struct {
	kinds   resources
	away    []schema.GroupVersion // their servers do not answer
	version apiversion.Info

	mu      sync.Mutex
	record  []byte    // the last release record
	lookups []request // objects that were asked for
}

// request is what a path of the API asks for; name is empty for a list.
type request struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

func (r request) verb() string {
	if r.name == "" {
		return "list"
	}
	return "get"
}

// RoundTrip implements http.RoundTripper.
func (r *rehearsal) RoundTrip(req *http.Request) (*http.Response, error) {
	for _, gv := range r.away {
		if req.URL.Path == "/apis/"+gv.String() {
			return answerStatus(req, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "the server is currently unable to handle the request")
		}
	}
	if answer, ok := r.discovery(req.URL.Path); ok {
		return answerJSON(req, http.StatusOK, answer)
	}
	asked, ok := parsePath(req.URL.Path)
	switch {
	case !ok:
		return answerStatus(req, http.StatusNotFound, metav1.StatusReasonNotFound, "there is nothing at "+req.URL.Path)
	case req.Method == http.MethodPost && asked.resource.Resource == "secrets":
		if err := r.keep(req.Body); err != nil {
			return nil, err
		}
		return answerStatus(req, http.StatusForbidden, metav1.StatusReasonForbidden, "this is a rehearsal")
	case req.Method != http.MethodGet:
		return answerStatus(req, http.StatusForbidden, metav1.StatusReasonForbidden, "this is a rehearsal")
	case strings.Contains(req.URL.RawQuery, "owner%3Dhelm"): // the records of releases: there are none
	default:
		r.mu.Lock()
		r.lookups = append(r.lookups, asked)
		r.mu.Unlock()
	}
	if asked.name != "" {
		return answerStatus(req, http.StatusNotFound, metav1.StatusReasonNotFound, asked.name+" does not exist")
	}
	return answerJSON(req, http.StatusOK, metav1.PartialObjectMetadataList{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}, Items: []metav1.PartialObjectMetadata{},
	})
}

// take returns what was seen since the last call.
func (r *rehearsal) take() (record []byte, lookups []request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	record, lookups = r.record, r.lookups
	r.record, r.lookups = nil, nil
	return record, lookups
}

// discovery answers what the API server says about itself, in the form that every
// client understands.
func (r *rehearsal) discovery(path string) (any, bool) {
	switch path {
	case "/version":
		return r.version, true
	case "/api":
		return metav1.APIVersions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIVersions"}, Versions: []string{"v1"}}, true
	case "/apis":
		return r.groups(), true
	}
	gv, ok := strings.CutPrefix(path, "/apis/")
	if path == "/api/v1" {
		gv, ok = "v1", true
	}
	if !ok || strings.Count(gv, "/") > 1 {
		return nil, false
	}
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: gv}
	for _, x := range r.kinds {
		if x.GroupVersion().String() == gv {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: x.Resource, Kind: x.kind, Namespaced: x.namespaced, ShortNames: x.short, Verbs: allVerbs(),
			})
		}
	}
	return list, len(list.APIResources) > 0
}

func (r *rehearsal) groups() metav1.APIGroupList {
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}}
	index, seen := map[string]int{}, map[schema.GroupVersion]bool{}
	var all []schema.GroupVersion
	for _, x := range r.kinds {
		all = append(all, x.GroupVersion())
	}
	for _, gv := range append(all, r.away...) {
		if gv.Group == "" || seen[gv] {
			continue
		}
		seen[gv] = true
		version := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		i, ok := index[gv.Group]
		if !ok {
			i, index[gv.Group] = len(list.Groups), len(list.Groups)
			list.Groups = append(list.Groups, metav1.APIGroup{Name: gv.Group, PreferredVersion: version})
		}
		list.Groups[i].Versions = append(list.Groups[i].Versions, version)
	}
	return list
}

// keep takes the release record out of a secret that Helm wants to store.
func (r *rehearsal) keep(body io.Reader) error {
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	secret := corev1.Secret{}
	if packed, ok := bytes.CutPrefix(data, []byte("k8s\x00")); ok {
		var envelope runtime.Unknown
		if err := envelope.Unmarshal(packed); err != nil {
			return fmt.Errorf("read the release record: %w", err)
		}
		err = secret.Unmarshal(envelope.Raw)
	} else {
		err = json.Unmarshal(data, &secret)
	}
	if err != nil {
		return fmt.Errorf("read the release record: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record = secret.Data["release"]
	return nil
}

// releaseRecord is the part of Helm's record that lists objects.
type releaseRecord struct {
	Manifest string `json:"manifest"`
	Hooks    []struct {
		Manifest string `json:"manifest"`
	} `json:"hooks"`
}

// manifests are the documents of a record, those of hooks behind the others.
func manifests(record []byte) (string, error) {
	packed, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(record)))
	if err != nil {
		return "", fmt.Errorf("unpack the release record: %w", err)
	}
	var release releaseRecord
	if err := json.NewDecoder(packed).Decode(&release); err != nil {
		return "", fmt.Errorf("read the release record: %w", err)
	}
	text := release.Manifest
	for _, hook := range release.Hooks {
		text += "\n---\n" + hook.Manifest
	}
	return text, nil
}

// parsePath takes a path of the API apart. Subresources are not asked for here.
func parsePath(path string) (request, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var r request
	switch {
	case len(parts) > 2 && parts[0] == "api":
		r.resource.Version, parts = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		r.resource.Group, r.resource.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return r, false
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		r.namespace, parts = parts[1], parts[2:]
	}
	r.resource.Resource = parts[0]
	if len(parts) > 1 {
		r.name = parts[1]
	}
	return r, len(parts) <= 2
}

// survey passes questions about kinds on to a real API server, remembers the answers,
// and lets nothing else through: looking at a cluster must not change it.
type survey struct {
	next http.RoundTripper

	mu     sync.Mutex
	groups metav1.APIGroupList
	lists  map[string]metav1.APIResourceList // by version
	about  apiversion.Info
	failed error
}

// RoundTrip implements http.RoundTripper.
func (s *survey) RoundTrip(req *http.Request) (*http.Response, error) {
	path := req.URL.Path
	depth := strings.Count(path, "/")
	about := path == "/version" || path == "/api/v1" || path == "/api" || strings.HasPrefix(path, "/apis") && depth <= 3
	if !about {
		return answerStatus(req, http.StatusForbidden, metav1.StatusReasonForbidden, "only kinds are asked for")
	}
	plain := req.Clone(req.Context())
	plain.Header.Set("Accept", "application/json") // one list a version, not the aggregated form
	plain.Header.Del("Accept-Encoding")
	plain.Header.Del("If-None-Match")
	resp, err := s.next.RoundTrip(plain)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	s.learn(path, body)
	return resp, nil
}

func (s *survey) learn(path string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list metav1.APIResourceList
	var err error
	switch path {
	case "/api":
	case "/version":
		err = json.Unmarshal(body, &s.about)
	case "/apis":
		err = json.Unmarshal(body, &s.groups)
	default:
		if err = json.Unmarshal(body, &list); err == nil {
			s.lists[list.GroupVersion] = list
		}
	}
	if err != nil {
		s.failed = errors.Join(s.failed, fmt.Errorf("answer of the API server to %s: %w", path, err))
	}
}

// resources are what was learned: the core first, then the groups in the server's order
// with their preferred versions first.
func (s *survey) resources() resources {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := resources{}.add(s.lists["v1"])
	for _, group := range s.groups.Groups {
		all = all.add(s.lists[group.PreferredVersion.GroupVersion])
		for _, v := range group.Versions {
			if v != group.PreferredVersion {
				all = all.add(s.lists[v.GroupVersion])
			}
		}
	}
	return all
}

// away are the APIs whose kinds are unknown: their servers do not answer.
func (s *survey) away() []schema.GroupVersion {
	s.mu.Lock()
	defer s.mu.Unlock()
	var away []schema.GroupVersion
	for _, group := range s.groups.Groups {
		for _, v := range group.Versions {
			if _, listed := s.lists[v.GroupVersion]; !listed {
				away = append(away, schema.GroupVersion{Group: group.Name, Version: v.Version})
			}
		}
	}
	return away
}

func answerStatus(req *http.Request, code int32, reason metav1.StatusReason, message string) (*http.Response, error) {
	return answerJSON(req, int(code), metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	})
}

func answerJSON(req *http.Request, code int, answer any) (*http.Response, error) {
	body, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: code, Status: fmt.Sprint(code, " ", http.StatusText(code)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}, nil
}
