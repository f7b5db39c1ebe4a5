package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"addon-operator/actors/plan"
	"addon-operator/cmd/cli"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/server"
	"addon-operator/values"
)

// valueEdit is a change of one value of the ConfigMap by a person, and the command for it.
//
// run finds out which operator would read the value (meet), and attempt does one round: read the
// ConfigMap, edit the text of one key, have the operator validate the result, write over exactly what was read.
// When another writer was faster, the next round begins with what that has written. An edit that
// makes the ConfigMap invalid is not written: the operator would refuse all of it, and later edits,
// too (D16).
type valueEdit struct {
	config *cli.Config
	edit   values.Edit
	text   bool   // the value is a text, whatever it looks like
	file   string // holds the value; - is stdin, empty: it is an argument
	dryRun bool
	force  bool                   // write what belongs to no module, is refused, or cannot be validated
	yes    bool                   // write what deletes objects
	away   string                 // why no operator is asked; empty: one is
	known  messages.ConfigChecked // what the operator knows of the path and of the content before the edit
}

// editAttempts is how often an edit begins again because another writer was faster.
const editAttempts = 10

const aboutEdits = `

The value is in the ConfigMap; one that a schema marks as a secret, or that the Secret has already, is in the
Secret. Other keys, comments and their order stay. The running operator validates the ConfigMap before it is
written, and the Secret when it reads it. What it would refuse, a path that belongs to no module, and what cannot
be validated because no operator answers, is written only with --force. A deleted ConfigMap is created again with
its last valid content.

What the operator would delete or replace is printed before. At a terminal you are asked; elsewhere
--yes is necessary, which also allows an upgrade that would be held back. Changes of the Secret are not planned.

PATH begins with global or with the module: ingress-nginx.controller.replicas, a["odd.key"][0], or a JSON pointer,
/global/a; "-" is the position after the last element of a list. ingressNginxEnabled is the flag of a module.`

// setCommand is values set.
func setCommand(c *cli.Config) *cobra.Command {
	v := &valueEdit{config: c}
	cmd := &cobra.Command{
		Use: "set PATH VALUE", Short: "Change one value in the ConfigMap or in the Secret",
		Long: "Changes one value. VALUE is YAML or JSON." + aboutEdits,
		Example: "  addon-operator values set global.clusterDomain example.com\n  addon-operator values set ingress-nginx.controller.replicas 3\n" +
			"  addon-operator values set ingressNginxEnabled true\n  addon-operator values set grafana.version 1.10 --string",
		Args: func(_ *cobra.Command, args []string) error {
			// --file replaces the second argument.
			if want := 2; v.file == "" && len(args) != want || v.file != "" && len(args) != want-1 {
				return cli.Usagef("values set needs a path and a value, such as 'values set global.a 1', or a path and --file")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			value, err := v.value(cmd.InOrStdin(), args[1:])
			if err != nil {
				return err
			}
			v.edit.Value = value
			return v.run(cmd, args[0])
		},
		ValidArgsFunction: first(c, "MODULE"),
	}
	v.flags(cmd)
	cmd.Flags().BoolVar(&v.text, "string", false, "VALUE is a string, even if it looks like a number")
	cmd.Flags().StringVarP(&v.file, "file", "f", "", "read VALUE from a file, or with - from standard input; this keeps secrets out of the shell history")
	return cmd
}

// unsetCommand is values unset.
func unsetCommand(c *cli.Config) *cobra.Command {
	v := &valueEdit{config: c, edit: values.Edit{Remove: true}}
	cmd := &cobra.Command{
		Use: "unset PATH", Short: "Remove one value from the ConfigMap or from the Secret",
		Long:              "Removes one value, so that the value of the files and schemas applies again." + aboutEdits,
		Example:           "  addon-operator values unset ingress-nginx.controller.replicas\n  addon-operator values unset ingressNginxEnabled",
		Args:              cli.Arguments("the path of one value, such as global.a.b"),
		RunE:              func(cmd *cobra.Command, args []string) error { return v.run(cmd, args[0]) },
		ValidArgsFunction: first(c, "MODULE"),
	}
	v.flags(cmd)
	return cmd
}

// flags declares what all edits have.
func (v *valueEdit) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&v.dryRun, "dry-run", false, "validate and print what would change, and write nothing")
	cmd.Flags().BoolVar(&v.force, "force", false, "write what belongs to no module, what the operator refuses, and what no operator validates")
	cmd.Flags().BoolVar(&v.yes, "yes", false, "write without asking, although objects are deleted")
}

// value reads VALUE from the argument, a file or stdin. As text it is what the file has, without
// the line end that editors add; else it is YAML, so that numbers, lists and maps can be set.
func (v *valueEdit) value(stdin io.Reader, args []string) (any, error) {
	var data []byte
	var err error
	switch v.file {
	case "":
		data = []byte(args[0])
	case "-":
		data, err = io.ReadAll(stdin)
	default:
		data, err = os.ReadFile(v.file)
	}
	if err != nil {
		return nil, fmt.Errorf("read the value: %w", err)
	}
	// Of an argument nothing is removed: a person can pass exactly what is meant.
	if v.text {
		text := string(data)
		if v.file != "" {
			text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
		}
		return text, nil
	}
	value, err := values.ParseYAML(data)
	if err != nil {
		return nil, cli.Usagef("the value is not valid YAML: %w; use --string to set it as a string", err)
	}
	return value, nil
}

// run does the edit at a path. An error of the path or of the options is found before anything is
// asked.
func (v *valueEdit) run(cmd *cobra.Command, path string) error {
	var err error
	if v.edit.Path, err = values.ParsePath(path); err != nil {
		return cli.Usagef("%w", err)
	}
	if len(v.edit.Path) > 0 && strings.Contains(v.edit.Path[0], "-") { // the name of a module; keys have no dashes
		if v.edit.Path[0], err = values.Key(v.edit.Path[0]); err != nil {
			return cli.Usagef("%w", err)
		}
	}
	client, err := operatorNamespace(cmd.Context(), v.config)
	if err != nil {
		return err
	}
	if err := v.meet(cmd.Context(), client); err != nil && !v.force {
		return fmt.Errorf("nothing was written, because nothing validates it: %w; --force writes it", err)
	} else if err != nil {
		v.away = err.Error()
	}
	for range editAttempts {
		if err = v.attempt(cmd, client); !errors.Is(err, kube.ErrConflict) {
			break
		}
	}
	return err
}

// attempt does one round. It returns kube.ErrConflict when the ConfigMap was changed since it was
// read; all of it must then be done again, because the new text may make the edit, or its
// validation, come out differently. What is printed on stdout is the change, on stderr what was
// done about it.
func (v *valueEdit) attempt(cmd *cobra.Command, client *kube.Client) error {
	ctx, c := cmd.Context(), v.config
	configMap := client.ConfigMap(c.Namespace, c.ConfigMap)
	read, err := configMap.Read(ctx)
	if err != nil {
		return err
	}
	current, note, err := v.begin(ctx, read)
	if err != nil {
		return fmt.Errorf("%s: %w", configMap, err)
	}
	edited, err := v.edit.Apply(current)
	if err != nil {
		return err
	}
	if v.known.InSecret || v.known.Marked && !v.edit.Remove {
		return v.changeSecret(cmd, client)
	}
	if err := v.refuseTypo(edited); err != nil {
		return err
	}
	// A deleted ConfigMap is written even when the edit changes nothing in its last valid content:
	// creating it again is part of the change.
	if edited.Unchanged(v.edit) && (read.Exists() || len(current) == 0) {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is unchanged: %s\n", values.Dotted(nil, v.edit.Path), v.word(edited.Before, edited.Had))
		return err
	}
	next := with(current, edited)
	refused, err := v.validate(ctx, next)
	if err != nil {
		return err
	}
	confirm, unknown, err := v.foresee(cmd, next)
	if err != nil {
		return err
	}
	done := "would be written (dry run)"
	if !v.dryRun {
		written, err := configMap.Update(ctx, read, next, confirm)
		if err != nil {
			return err
		}
		done = "is written, resourceVersion " + written.ResourceVersion
	}
	return v.report(cmd, edited, fmt.Sprintf("%s %s; %s%s%s", configMap, done, note, refused, unknown))
}

// begin returns the content that is edited, and how it is validated. It learns what is known of the path, before a
// value is printed: it may be a secret.
func (v *valueEdit) begin(ctx context.Context, read kube.ConfigMap) (current map[string]string, note string, err error) {
	v.known, err = v.ask(ctx, read.Data)
	const valid = "validated by the running operator"
	switch {
	case err != nil:
		return nil, "", err
	case v.away != "" && !read.Exists(): // a new one would remove what may be in force (P1)
		return nil, "", fmt.Errorf("it does not exist, and only the operator knows its last valid content: %s; to give that up, create an empty one", v.away)
	case v.away != "":
		return read.Data, "NOT validated: " + v.away, nil
	case !read.Exists() && len(v.known.LastValid) > 0: // also when the operator has not seen the deletion yet
		return v.known.LastValid, valid + "; it was deleted, and is created again with its last valid content", nil
	}
	return read.Data, valid, nil
}

// refuseTypo refuses a path that belongs to no module, and the removal of a value that is not there. What is there
// can always be removed.
func (v *valueEdit) refuseTypo(edited values.Edited) error {
	switch {
	case v.force || v.edit.Remove && edited.Had:
		return nil
	case v.known.Unknown != "":
		return fmt.Errorf("nothing was written: %s; --force writes it", v.known.Unknown)
	case v.edit.Remove:
		return fmt.Errorf("nothing was written: the ConfigMap has no value at %s", values.Dotted(nil, v.edit.Path))
	}
	return nil
}

// validate refuses a content that would not be in force, unless that is forced: then it returns what is wrong, for the
// report.
func (v *valueEdit) validate(ctx context.Context, next map[string]string) (note string, err error) {
	checked, err := v.ask(ctx, next)
	switch {
	case err != nil || checked.Refused == "":
		return "", err
	case v.force:
		return "; it is refused: " + checked.Refused, nil
	case v.known.Refused != "":
		return "", fmt.Errorf("nothing was written: the ConfigMap is refused already, and would still be: %s\n--force writes one correction of several", checked.Refused)
	}
	return "", fmt.Errorf("nothing was written: the ConfigMap would be refused: %s", checked.Refused)
}

// with is a content with an edit. Only its key changes; Text is nil when the edit removes the last value of a section.
func with(current map[string]string, edited values.Edited) map[string]string {
	next := maps.Clone(current)
	if next == nil {
		next = map[string]string{}
	}
	if delete(next, edited.Key); edited.Text != nil {
		next[edited.Key] = *edited.Text
	}
	return next
}

// report prints the change on stdout, and what was done about it on stderr.
func (v *valueEdit) report(cmd *cobra.Command, edited values.Edited, done string) error {
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %s -> %s\n", values.Dotted(nil, v.edit.Path), v.word(edited.Before, edited.Had), v.word(v.edit.Value, !v.edit.Remove))
	_, err := fmt.Fprintln(cmd.ErrOrStderr(), done)
	return err
}

// changeSecret does one round of the edit in the Secret (D40, D41).
func (v *valueEdit) changeSecret(cmd *cobra.Command, client *kube.Client) error {
	store := client.Secret(v.config.Namespace, v.config.SecretName())
	read, err := store.Read(cmd.Context())
	if err != nil {
		return err
	}
	edited, err := v.edit.Apply(read.Data)
	if err != nil {
		return err
	}
	done := "would be written (dry run)"
	switch {
	case edited.Unchanged(v.edit):
		done = "is unchanged"
	case !v.dryRun:
		written, err := store.Write(cmd.Context(), read.Data, map[string]*string{edited.Key: edited.Text})
		if err != nil {
			return fmt.Errorf("write %s: %w", store, err)
		}
		done = "is written, resourceVersion " + written.ResourceVersion + "; the operator validates it when it reads it"
	}
	return v.report(cmd, edited, fmt.Sprintf("%s %s", store, done))
}

// word is a value for people: hidden when a schema marks it, or no operator knows that; masked when it looks like a
// secret.
func (v *valueEdit) word(value any, there bool) string {
	if !there {
		return "(none)"
	}
	if v.known.Marked || v.known.InSecret || v.away != "" {
		return `"` + values.Hidden + `"`
	}
	text, err := values.Encode(values.MaskAt(v.edit.Path, value))
	if err != nil {
		return err.Error()
	}
	return values.Shorten(string(text), 60)
}

// meet finds out whether the operator that answers is the one whose ConfigMap is written; its error
// is the reason why it is not asked. Without that, the one at the default address, of another cluster
// perhaps, would validate the edit. It takes the name of the ConfigMap from the operator unless an
// option gives it.
func (v *valueEdit) meet(ctx context.Context, client *kube.Client) error {
	// choose and identity are not behind send, which has this limit.
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	c := v.config
	to, err := choose(ctx, c)
	if err != nil {
		return err
	}
	its, err := to.send(ctx, http.MethodGet, "/healthz", "") // the cheapest page
	if err != nil {
		return err
	}
	cluster, configMap := its.header.Get(server.ClusterHeader), its.header.Get(server.ConfigMapHeader)
	mine := client.RESTConfig().Host
	// In its cluster the operator has another address of the same API server than a kubeconfig has,
	// so what was found through that needs no comparison.
	if cluster != "" && !asksCluster(c) && strings.TrimSuffix(cluster, "/") != strings.TrimSuffix(mine, "/") {
		return fmt.Errorf("the operator on %s serves another cluster, %s, not %s", to.where, cluster, mine)
	}
	// An older version does not report where its values are; then the options count.
	namespace, name, reported := strings.Cut(configMap, "/")
	if reported && namespace == c.Namespace && !c.Given("config-map") {
		c.ConfigMap = name
	}
	if reported && configMap != c.Namespace+"/"+c.ConfigMap {
		return fmt.Errorf("the operator on %s has its values in the ConfigMap %s, not in %s/%s", to.where, configMap, c.Namespace, c.ConfigMap)
	}
	return nil
}

// ask asks the running operator whether it would accept these data, and what it knows of the path; without an
// operator the answer is empty. It asks for secrets, because the answer must have the last valid content; what is
// printed is masked here.
func (v *valueEdit) ask(ctx context.Context, data map[string]string) (answer messages.ConfigChecked, err error) {
	if v.away != "" {
		return answer, nil
	}
	if data == nil { // null is refused
		data = map[string]string{}
	}
	body, err := json.Marshal(data)
	if err != nil {
		return answer, err
	}
	page := "/values/check?show-secrets=true&path=" + url.QueryEscape(values.JSONPointer(v.edit.Path...))
	got, err := send(ctx, v.config, answerLimit, http.MethodPost, page, string(body))
	if err != nil {
		return answer, err
	}
	return answer, json.Unmarshal(got.body, &answer)
}

// foresee prints which objects the operator would delete or replace after an edit, and has a person confirm that.
// confirm is the annotation that allows an upgrade which would be held back otherwise; one edit can allow one.
func (v *valueEdit) foresee(cmd *cobra.Command, next map[string]string) (confirm, note string, err error) {
	if v.away != "" { // forced
		return "", "", nil
	}
	var foreseen plan.Plan
	answer, _, err := (&planning{config: v.config, output: "json"}).askOperator(cmd, "", plan.Request{Proposed: next})
	if err == nil {
		err = json.Unmarshal(answer, &foreseen)
	}
	if err != nil {
		return "", fmt.Sprintf("; it is not known what this deletes: %v", err), nil
	}
	text, deletes, confirm := forecast(foreseen)
	if text = hooks.Printable(text); printers.AllowsColorOutput(cmd.ErrOrStderr()) {
		text = colored(text)
	}
	if _, err := io.WriteString(cmd.ErrOrStderr(), text); err != nil || deletes == 0 || v.dryRun || v.yes {
		return confirm, "", err
	}
	if v.file == "-" || !printers.IsTerminal(cmd.InOrStdin()) {
		return "", "", fmt.Errorf("nothing was written: objects that would be deleted or replaced: %d; --yes allows it", deletes)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "Objects that would be deleted or replaced: %d. Continue? [y/N] ", deletes)
	line, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // no answer is no
	if !strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "y") {
		return "", "", errors.New("nothing was written")
	}
	return confirm, "", nil
}

// forecast is what of a plan deletes or replaces objects, how many, and the annotation that allows it.
func forecast(foreseen plan.Plan) (text string, deletes int, confirm string) {
	for _, m := range foreseen.Modules {
		var shown []plan.Object
		for _, o := range m.Objects {
			if o.Diff = ""; o.Verb == "delete" || o.Note != "" {
				shown = append(shown, o)
			}
			if o.Verb == "delete" || strings.Contains(o.Note, "deleted and created") {
				deletes++
			}
		}
		if m.Objects = shown; len(shown) > 0 || m.Error != "" {
			text += m.Text()
		}
		if m.Confirm != "" && confirm == "" {
			confirm = m.Confirm
		}
	}
	return text, deletes, confirm
}
