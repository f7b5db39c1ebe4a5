package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"addon-operator/actors/check"
	"addon-operator/addons"
	"addon-operator/cmd/cli"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/server"
	"addon-operator/values"
)

// valueEdit is a change of one value of the ConfigMap by a person, and the command for it.
//
// run finds out which operator would read the value (meet), and attempt does one round: read the
// ConfigMap, edit the text of one key, have the result validated, write over exactly what was read.
// When another writer was faster, the next round begins with what that has written. An edit that
// makes the ConfigMap invalid is not written: the operator would refuse all of it, and later edits,
// too (D16).
type valueEdit struct {
	config  *cli.Config
	edit    values.Edit
	text    bool   // the value is a text, whatever it looks like
	file    string // holds the value; - is stdin, empty: it is an argument
	dryRun  bool
	create  bool // allowed to create a ConfigMap without knowing what it held
	force   bool // write what belongs to no module, or is refused
	yes     bool // write what deletes objects
	secrets bool
	special special // of the value at the path, as of the last round
	unknown string  // why the path belongs to no module, as of the last round
	away    error   // why the running operator is not asked; nil: it is
}

// special is what is known of the value that is edited: a schema marks it as a secret (D41); the
// Secret has a value there, which overrides it (D40).
type special struct{ marked, inSecret bool }

// editAttempts is how often an edit begins again because another writer was faster.
const editAttempts = 10

const aboutEdits = `

The value is in the ConfigMap; one that a schema marks as a secret, or that the Secret has already, is in the
Secret. Other keys, comments and their order stay. A path that belongs to no module, or that a schema does not
allow, is refused; --force writes it. The result is validated before
it is written: by the running operator if it answers, otherwise by the schemas in the modules directory. The Secret
is validated when the operator reads it. A deleted ConfigMap is created again with its last valid content.

What the operator would delete or replace is printed before, if it answers. At a terminal you are asked; elsewhere
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
		Args:              cli.OneArg("the path of one value, such as global.a.b"),
		RunE:              func(cmd *cobra.Command, args []string) error { return v.run(cmd, args[0]) },
		ValidArgsFunction: first(c, "MODULE"),
	}
	v.flags(cmd)
	return cmd
}

// flags declares what all edits have.
func (v *valueEdit) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&v.dryRun, "dry-run", false, "validate and print what would change, and write nothing")
	cmd.Flags().BoolVar(&v.force, "force", false, "write a path that belongs to no module, or a ConfigMap that the operator refuses")
	cmd.Flags().BoolVar(&v.yes, "yes", false, "write without asking, although objects are deleted")
	cmd.Flags().BoolVar(&v.create, "create", false, "create the ConfigMap even if its former content is unknown; that content is then lost")
	cmd.Flags().BoolVar(&v.secrets, "show-secrets", false, "show secrets in full")
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
	if err := inItsNamespace(cmd.Context(), v.config); err != nil {
		return err
	}
	if err := v.config.Complete(); err != nil {
		return err
	}
	client, err := v.config.Connect()
	if err != nil {
		return err
	}
	v.away = v.meet(cmd.Context(), client)
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
	current, notes := read.Data, []string{""}
	if !read.Exists() {
		// The operator keeps the last valid content of a deleted ConfigMap in force. A new one with
		// nothing but the edit would remove all of it, so it begins with that content.
		if current, notes[0], err = v.lastValid(ctx, client); err != nil {
			return err
		}
	}
	edited, err := v.edit.Apply(current)
	if err != nil {
		return err
	}
	path := values.Dotted(v.edit.Path)
	// Before the value is printed, because it sets whether the value is marked as a secret, which word uses.
	refuses, by := v.validator(ctx, client)
	if v.special.inSecret || v.special.marked && !v.edit.Remove {
		return v.changeSecret(cmd, client)
	}
	if err := v.refuseTypo(edited, current, refuses); err != nil {
		return err
	}
	// A deleted ConfigMap is written even when the edit changes nothing in its last valid content:
	// creating it again is part of the change.
	if edited.Unchanged(v.edit) && (read.Exists() || len(current) == 0) {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is unchanged: %s\n", path, v.word(edited.Before, edited.Had))
		return err
	}
	next := with(current, edited)
	// An edit may be one of several that repair a ConfigMap, so one that is refused anyway may be
	// edited.
	still, err := v.validate(refuses, current, next)
	if err != nil {
		return err
	}
	// A note that it is still refused is more important than the validator.
	by = cmp.Or(still, by)
	notes = append(notes, by)
	confirm, note, err := v.foresee(cmd, next)
	if err != nil {
		return err
	}
	notes = append(notes, note)
	done := "would be written (dry run)"
	if !v.dryRun {
		written, err := configMap.Update(ctx, read, next, confirm)
		if err != nil {
			return err
		}
		done = "is written, resourceVersion " + written.ResourceVersion
	}
	return v.report(cmd, edited, fmt.Sprintf("%s %s; %s", configMap, done, strings.Join(slices.DeleteFunc(notes, func(n string) bool { return n == "" }), "; ")))
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
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %s -> %s\n", values.Dotted(v.edit.Path), v.word(edited.Before, edited.Had), v.word(v.edit.Value, !v.edit.Remove))
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

// word is a value for people: hidden when a schema marks it, masked when it looks like a secret,
// unless --show-secrets is given.
func (v *valueEdit) word(value any, there bool) string {
	if !there {
		return "(none)"
	}
	if !v.secrets && (v.special.marked || v.special.inSecret) {
		return `"` + values.Hidden + `"`
	}
	if !v.secrets {
		value = values.MaskAt(v.edit.Path, value)
	}
	text, err := values.Encode(value)
	if err != nil {
		return err.Error()
	}
	return values.Shorten(string(text), 60)
}

// lastValid is what a ConfigMap held that does not exist, and a note about where that is known
// from: the running operator, else the Secret in which it keeps the content (P3). If neither can be
// asked, an empty ConfigMap might remove values that are in force, so that needs --create.
func (v *valueEdit) lastValid(ctx context.Context, client *kube.Client) (map[string]string, string, error) {
	c := v.config
	answer, err := v.ask(ctx, map[string]string{})
	switch {
	case err == nil && len(answer.LastValid) > 0: // also when the operator has not seen the deletion yet
		return answer.LastValid, "it was deleted, and is created again with its last valid content, which the operator uses", nil
	case err == nil:
		return nil, "it is new", nil
	}
	store := client.LastValid(c.Namespace, c.ConfigMap)
	kept, errKept := store.Read(ctx)
	switch {
	case kept != nil && len(kept.Config) > 0:
		return kept.Config, fmt.Sprintf("it was deleted, and is created again with its last valid content, from %s", store), nil
	// A kept content that is empty proves that nothing is in force, too.
	case kept != nil || v.create:
		return nil, "it is new", nil
	}
	return nil, "", fmt.Errorf("ConfigMap %s/%s does not exist, and it is unknown whether the operator still uses values from it: %w; "+
		"run the command where the operator answers, or create the ConfigMap with --create, which removes those values", c.Namespace, c.ConfigMap, errors.Join(err, errKept))
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

// ask asks the running operator whether it would accept these data, and what is special about the
// value. It asks for secrets, because the answer must have the last valid content; what is printed
// is masked here.
func (v *valueEdit) ask(ctx context.Context, data map[string]string) (answer messages.ConfigChecked, err error) {
	if v.away != nil {
		return answer, v.away
	}
	body, err := json.Marshal(data)
	if err != nil {
		return answer, err
	}
	got, err := send(ctx, v.config, answerLimit, http.MethodPost, "/values/check?show-secrets=true&path="+url.QueryEscape(values.JSONPointer(v.edit.Path...)), string(body))
	if err != nil {
		return answer, err
	}
	return answer, decoded(got.body, &answer)
}

// validate refuses data that would not be in force, unless those before would not be either and the
// edit adds no new problem: then it returns what is wrong, for a note. Otherwise a ConfigMap with
// two mistakes could never be repaired one value at a time. Keys that cannot be parsed are left out
// of the validation by schemas, so that the others are checked. Without refuses only the form is
// checked.
func (v *valueEdit) validate(refuses func(map[string]string) (string, error), before, after map[string]string) (still string, err error) {
	unread, refused := unreadable(after), ""
	if refuses != nil {
		if refused, err = refuses(readableKeys(after)); err != nil {
			return "", err
		}
	}
	if unread == "" && refused == "" {
		return "", nil
	}
	was := ""
	if refuses != nil && refused != "" {
		if was, err = refuses(readableKeys(before)); err != nil {
			return "", err
		}
	}
	problems := strings.TrimSpace(unread + "\n" + refused)
	if !v.force && !within(problems, unreadable(before)+"\n"+was) {
		return "", fmt.Errorf("nothing was written: the ConfigMap would be refused: %s", problems)
	}
	return "it is still refused: " + problems, nil
}

// refuseTypo refuses a path that belongs to no module, and the removal of a value that is not there and that a schema does
// not allow there; what is there can always be removed.
func (v *valueEdit) refuseTypo(edited values.Edited, current map[string]string, refuses func(map[string]string) (string, error)) error {
	if v.force || v.edit.Remove && edited.Had {
		return nil
	}
	if v.unknown != "" {
		return fmt.Errorf("nothing was written: %s; --force writes it", v.unknown)
	}
	if !v.edit.Remove || refuses == nil {
		return nil
	}
	try, err := values.Edit{Path: v.edit.Path, Value: map[string]any{}}.Apply(current)
	if err != nil || try.Text == nil {
		return nil // there is no such place, so nothing is removed
	}
	next := maps.Clone(readableKeys(current))
	next[try.Key] = *try.Text
	refused, err := refuses(next)
	for line := range strings.Lines(refused) {
		if err == nil && strings.Contains(line, values.Dotted(v.edit.Path)+": is not a known key") {
			return errors.New("nothing was written: " + strings.TrimSpace(line))
		}
	}
	return err
}

// unreadable lists the keys of a ConfigMap that cannot be parsed, with the reasons; empty for none.
func unreadable(data map[string]string) string {
	if _, err := values.ParseConfigMap(data); err != nil {
		return err.Error()
	}
	return ""
}

// readableKeys leaves out the keys that cannot be parsed, so that the others can be checked. It is
// never nil: the operator refuses the body null, which is not a ConfigMap.
func readableKeys(data map[string]string) map[string]string {
	rest := map[string]string{}
	maps.Copy(rest, data)
	maps.DeleteFunc(rest, func(key, text string) bool { return unreadable(map[string]string{key: text}) != "" })
	return rest
}

// validator finds a validator, and reads what is special about the value: the running
// operator, which has all values, else the schemas in the modules directory, with the values in the
// Secret if those can be read. refuses returns why data would be refused; empty for valid
// data, and nil without any schema. by names the validator for people.
func (v *valueEdit) validator(ctx context.Context, client *kube.Client) (refuses func(map[string]string) (string, error), by string) {
	answer, errAsk := v.ask(ctx, map[string]string{})
	if errAsk == nil {
		v.special, v.unknown = special{answer.Marked, answer.InSecret}, answer.Unknown
		return func(data map[string]string) (string, error) {
			answer, err := v.ask(ctx, data)
			return answer.Refused, err
		}, "validated by the running operator"
	}
	why := "there are no modules in " + v.config.ModulesDir
	// A tree with errors is not used: a schema that cannot be read would refuse nothing.
	tree, err := addons.Load(v.config.Dirs)
	if err == nil && len(tree.Modules) > 0 {
		by := "validated by the schemas in " + v.config.ModulesDir
		// The schemas judge both layers together, as the operator does (D40).
		secret, err := client.Secret(v.config.Namespace, v.config.SecretName()).Read(ctx)
		if err != nil { // a value that a schema requires may be there
			by += ", without the values in the Secret, which cannot be read"
		}
		marked, errMarks := check.MarkedSecrets(tree)
		v.special.marked = errMarks == nil && marked(v.edit.Path)
		v.unknown = check.UnknownKey(tree, v.edit.Path[0])
		return func(data map[string]string) (string, error) {
			refused := ""
			if problem := check.ConfigMap(tree, data, secret.Data, slog.New(slog.DiscardHandler)); problem != nil {
				refused = problem.Error()
			}
			return refused, nil
		}, by
	}
	if err != nil {
		why = err.Error()
	}
	return nil, fmt.Sprintf("NOT validated by any schema: no operator answers (%s), and %s; 'kubectl -n %s describe configmap %s' shows whether the operator has accepted it", errAsk, why, v.config.Namespace, v.config.ConfigMap)
}

// within reports whether each line of a refusal was in the one before. A refusal has a line for
// each problem, so this is how a new one shows.
func within(refused, before string) bool {
	was := strings.Split(before, "\n")
	return !slices.ContainsFunc(strings.Split(refused, "\n"), func(line string) bool { return !slices.Contains(was, line) })
}
