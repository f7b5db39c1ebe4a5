package apiserver_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"addon-operator/kube/apiserver"
	"addon-operator/testkit/devclustertest"
	"addon-operator/testkit/golden"
)

const tableFile = "testdata/conformance.txtar"

// TestConformance asks both clusters the same and compares what they answer with what is
// written down. The answers that are written down are those of the real one: -update asks
// it again, and nothing else writes them.
func TestConformance(t *testing.T) {
	table, err := txtar.ParseFile(tableFile)
	must(t, err)
	if golden.Updating() {
		writeDown(t, table)
	}
	for name, start := range map[string]func(t *testing.T) (config *rest.Config, namespace string){
		"memory": func(*testing.T) (*rest.Config, string) {
			server := apiserver.New("v1.37.0")
			server.EnsureNamespace("conformance")
			return server.RESTConfig(), "conformance"
		},
		"devcluster": devcluster,
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range table.Files {
				t.Run(c.Name, func(t *testing.T) {
					t.Parallel()
					config, namespace := start(t)
					if got := converse(t, config, namespace, string(c.Data)); got != string(c.Data) {
						t.Errorf("it answers otherwise than the real API server did (- want, + got):\n%s", golden.Diff(string(c.Data), got))
					}
				})
			}
		})
	}
}

func devcluster(t *testing.T) (*rest.Config, string) {
	cluster := devclustertest.Start(t)
	return cluster.RESTConfig(), cluster.Namespace(t)
}

func writeDown(t *testing.T, table *txtar.Archive) {
	t.Helper()
	for i, c := range table.Files {
		config, namespace := devcluster(t)
		table.Files[i].Data = []byte(converse(t, config, namespace, string(c.Data)))
	}
	must(t, os.WriteFile(tableFile, txtar.Format(table), 0o644))
}

// Each case says in its name what is proven, and asks something.
func TestConformanceTable(t *testing.T) {
	table, err := txtar.ParseFile(tableFile)
	must(t, err)
	seen := map[string]bool{}
	for _, c := range table.Files {
		if seen[c.Name] || !strings.Contains(c.Name, ": ") {
			t.Errorf("%q must be 'subject: sentence', and once", c.Name)
		}
		seen[c.Name] = true
		if !bytes.Contains(c.Data, []byte("\n"+answerMark)) {
			t.Errorf("%q has no answers; go test -update asks the real API server", c.Name)
		}
	}
}

// A conversation is a case of the table: lines that ask, lines that continue the body of
// a question (indented), and what is answered (after answerMark). Questions are
//
//	GET|POST|PUT|DELETE PATH [BODY]
//	JSON|MERGE|STRATEGIC|APPLY PATH [BODY]     patches
//	WATCH PATH            begin to watch; "(open)" is all it answers
//	EVENTS N              the next N events of the last watch; END is the end of the stream
//	GONE PATH             wait until there is nothing
//	SERVED PATH           wait until there is something
//	FIND PATH NAME...     what discovery says of resources
//
// Bodies are YAML. NS stands for a namespace of the case's own. Versions, UIDs and tokens
// have names in the order in which they were seen: {rv1}, {uid1}, {generated}, and that
// of the last list: {list}. After " | " stand the fields of interest; all, if there are none.
type conversation struct {
	t         *testing.T
	client    *http.Client
	host      string
	namespace string
	names     map[string]string // what was seen → its name
	counts    map[string]int
	listed    string // version of the last list
	stream    *bufio.Scanner
}

const answerMark = "< "

// patience is how long a question may wait for its answer.
const patience = 2 * time.Minute

// converse asks what a case asks and returns it with the answers.
func converse(t *testing.T, config *rest.Config, namespace, text string) string {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := rest.HTTPClientFor(config)
	must(t, err)
	c := &conversation{t: t, client: client, host: strings.TrimSuffix(config.Host, "/"), namespace: namespace, names: map[string]string{}, counts: map[string]int{}}
	var out strings.Builder
	for _, question := range questions(text) {
		out.WriteString(question)
		for _, line := range c.ask(question) {
			fmt.Fprintf(&out, "%s%s\n", answerMark, line)
		}
	}
	return out.String()
}

// questions are the lines without answers; what is indented belongs to the line above.
func questions(text string) (list []string) {
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, answerMark) || strings.TrimSpace(line) == "":
		case strings.HasPrefix(line, " ") && len(list) > 0:
			list[len(list)-1] += line
		default:
			list = append(list, line)
		}
	}
	return list
}

func patchTypes() map[string]string {
	return map[string]string{
		"JSON": "application/json-patch+json", "MERGE": "application/merge-patch+json",
		"STRATEGIC": "application/strategic-merge-patch+json", "APPLY": "application/apply-patch+yaml",
	}
}

func (c *conversation) ask(question string) []string {
	question, shown, _ := strings.Cut(strings.TrimRight(question, "\n"), " | ")
	verb, rest, _ := strings.Cut(c.resolved(question), " ")
	path, body, _ := strings.Cut(rest, " ")
	path = strings.TrimSpace(path)
	fields := strings.Fields(shown)
	switch verb {
	case "WATCH":
		return c.watch(path)
	case "EVENTS":
		return c.events(path, fields)
	case "GONE":
		return c.await(path, http.StatusNotFound)
	case "SERVED":
		return c.await(path, http.StatusOK)
	}
	if verb == "FIND" {
		return c.find(path, strings.Fields(body))
	}
	code, answer := c.request(verb, path, body)
	return c.rendered(code, answer, fields)
}

// resolved puts what was seen in the place of its names.
func (c *conversation) resolved(text string) string {
	text = strings.ReplaceAll(text, "NS", c.namespace)
	text = strings.ReplaceAll(text, "{list}", c.listed)
	for value, name := range c.names {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

func (c *conversation) request(verb, path, body string) (int, map[string]any) {
	method, contentType := verb, "application/json"
	if kind, ok := patchTypes()[verb]; ok {
		method, contentType = http.MethodPatch, kind
	}
	data := []byte(strings.TrimSpace(body))
	if converted, err := yaml.YAMLToJSON(data); err == nil && len(data) > 0 && !strings.HasPrefix(string(data), "!") {
		data = converted
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, c.host+path, bytes.NewReader(data))
	must(c.t, err)
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Accept", "application/json")
	response, err := c.client.Do(request)
	must(c.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(c.t, err)
	var answer map[string]any
	if err := json.Unmarshal(text, &answer); err != nil { // what is not served at all
		answer = map[string]any{"kind": "Status", "status": "Failure", "reason": "NotFound", "message": string(text)}
	}
	return response.StatusCode, answer
}

func (c *conversation) watch(path string) []string {
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	c.t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.host+path, http.NoBody)
	must(c.t, err)
	request.Header.Set("Accept", "application/json")
	response, err := c.client.Do(request)
	must(c.t, err)
	c.t.Cleanup(func() { response.Body.Close() })
	c.stream = bufio.NewScanner(response.Body)
	c.stream.Buffer(nil, 1<<20)
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		var answer map[string]any
		must(c.t, json.Unmarshal(text, &answer))
		return c.rendered(response.StatusCode, answer, nil)
	}
	return []string{"(open)"}
}

func (c *conversation) events(count string, fields []string) (lines []string) {
	n, err := strconv.Atoi(count)
	must(c.t, err)
	for range n {
		if !c.stream.Scan() {
			if c.stream.Err() != nil {
				return append(lines, "NOTHING COMES")
			}
			return append(lines, "END")
		}
		var event struct {
			Type   string
			Object map[string]any
		}
		must(c.t, json.Unmarshal(c.stream.Bytes(), &event))
		if event.Type == "BOOKMARK" { // of which version depends on what others do
			meta, _ := event.Object["metadata"].(map[string]any)
			meta["resourceVersion"] = ""
		}
		lines = append(lines, event.Type+" "+c.object(event.Object, fields))
	}
	return lines
}

func (c *conversation) await(path string, want int) []string {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if code, _ := c.request(http.MethodGet, path, ""); code == want {
			return []string{strconv.Itoa(code)}
		}
		select {
		case <-c.t.Context().Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	return []string{"it never is"}
}

func (c *conversation) find(path string, names []string) (lines []string) {
	_, answer := c.request(http.MethodGet, path, "")
	resources, _ := answer["resources"].([]any)
	for _, resource := range resources {
		r, _ := resource.(map[string]any)
		if name, _ := r["name"].(string); slices.Contains(names, name) {
			verbs, _ := r["verbs"].([]any)
			slices.SortFunc(verbs, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			lines = append(lines, fmt.Sprintf("%s: %v %v, namespaced %v, short %v, verbs %v", name, r["kind"], r["singularName"], r["namespaced"], r["shortNames"], verbs))
		}
	}
	slices.Sort(lines)
	return lines
}

// rendered is an answer: an object in a line, a list in a line for each item and one for
// itself.
func (c *conversation) rendered(code int, answer map[string]any, fields []string) []string {
	items, isList := answer["items"].([]any)
	if !isList {
		return []string{fmt.Sprintf("%d %s", code, c.object(answer, fields))}
	}
	head := fmt.Sprintf("%d %v of %d", code, answer["kind"], len(items))
	meta, _ := answer["metadata"].(map[string]any)
	c.listed, _ = meta["resourceVersion"].(string)
	lines := []string{head}
	for _, item := range items {
		if object, ok := item.(map[string]any); ok {
			lines = append(lines, "- "+c.object(object, fields))
		}
	}
	return lines
}

func (c *conversation) object(o map[string]any, fields []string) string {
	if o["kind"] == "Status" && o["status"] == "Failure" {
		text := fmt.Sprintf("%v", o["reason"])
		if !slices.Contains(fields, "reason") {
			text += ": " + c.plain(fmt.Sprint(o["message"]))
		}
		return text
	}
	kind := o["kind"]
	normal, _ := c.normal("", o).(map[string]any)
	if len(fields) > 0 {
		picked := map[string]any{}
		for _, field := range fields {
			var value any = normal
			for part := range strings.SplitSeq(field, ".") {
				inner, _ := value.(map[string]any)
				value = inner[part]
			}
			picked[field] = value
		}
		normal = picked
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	must(c.t, encoder.Encode(normal))
	return fmt.Sprintf("%v %s", kind, strings.TrimSpace(out.String()))
}

var generated = regexp.MustCompile(`^(.*-)[a-z0-9]{5}$`)

// normal puts names in the place of what differs from run to run.
func (c *conversation) normal(key string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, inner := range v {
			if k != "managedFields" {
				out[k] = c.normal(k, inner)
			}
		}
		if prefix, ok := v["generateName"].(string); ok {
			if name, _ := v["name"].(string); generated.MatchString(name) {
				c.names[name] = "generated"
				out["name"] = prefix + "#####"
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = c.normal("", v[i])
		}
		return out
	case string:
		switch key {
		case "resourceVersion":
			return c.name("rv", v)
		case "uid":
			return c.name("uid", v)
		case "creationTimestamp", "deletionTimestamp", "lastTransitionTime":
			return "TIME"
		}
		return c.plain(v)
	}
	return value
}

func (c *conversation) name(kind, value string) string {
	if value == "" {
		return ""
	}
	if name, ok := c.names[value]; ok && strings.HasPrefix(name, kind) {
		return name
	}
	c.counts[kind]++
	name := kind + strconv.Itoa(c.counts[kind])
	c.names[value] = name
	return name
}

// plain takes out of a text what differs from run to run.
func (c *conversation) plain(text string) string {
	text = strings.ReplaceAll(text, c.namespace, "NS")
	for value, name := range c.names {
		if strings.HasPrefix(name, "uid") || strings.HasPrefix(name, "rv") && len(value) > 2 {
			text = strings.ReplaceAll(text, value, name)
		}
	}
	return text
}
