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
	"addon-operator/values"
)

// valueEdit is a change of one value of the ConfigMap by a person.
type valueEdit struct {
	config  *cli.Config
	edit    values.Edit
	text    bool // the value is a text, whatever it looks like
	file    string
	dryRun  bool
	create  bool
	secrets bool
	special special
	away    error // why the running operator is not asked; nil: it is
}

// special is what is known of the value that is edited.
type special struct{ marked, inSecret bool }

// editAttempts is how often an edit begins again because another writer was faster.
const editAttempts = 10

const aboutEdits = `

Of the section only this value changes: other keys, comments, order and line ends stay as
they are, to the byte. What comes of it is validated before it is written: by the running
operator if it answers on its debug address, else by the schemas in the modules directory.
The ConfigMap is written through the kubeconfig, or from within the operator's Pod.

When the ConfigMap was deleted, it is created again with its last valid content and the
change: with the change alone it would take all other overrides away.

PATH begins with global or with the module: ingress-nginx.controller.replicas,
a["odd.key"][0], or a JSON pointer, /global/a; "-" is the place behind the last element of a
list. ingressNginxEnabled switches a module on or off.`

func setCommand(c *cli.Config, names *completer) *cobra.Command {
	v := &valueEdit{config: c}
	cmd := &cobra.Command{
		Use: "set PATH VALUE", Short: "Change one value of the ConfigMap",
		Long: "Changes one value of the ConfigMap. VALUE is YAML or JSON." + aboutEdits,
		Example: "  addon-operator values set global.clusterDomain example.com\n  addon-operator values set ingress-nginx.controller.replicas 3\n" +
			"  addon-operator values set ingressNginxEnabled true\n  addon-operator values set grafana.version 1.10 --string",
		Args: func(_ *cobra.Command, args []string) error {
			if want := 2; v.file == "" && len(args) != want || v.file != "" && len(args) != want-1 {
				return cli.Usagef("values set needs a path and a value, as 'values set global.a 1', or a path and --file")
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
		ValidArgsFunction: first(names.modules),
	}
	v.flags(cmd)
	cmd.Flags().BoolVar(&v.text, "string", false, "VALUE is a string, even if it looks like a number")
	cmd.Flags().StringVarP(&v.file, "file", "f", "", "read VALUE from a file, - for the standard input, so that no secret is in the history of the shell")
	return cmd
}

func unsetCommand(c *cli.Config, names *completer) *cobra.Command {
	v := &valueEdit{config: c, edit: values.Edit{Remove: true}}
	cmd := &cobra.Command{
		Use: "unset PATH", Short: "Remove one value from the ConfigMap",
		Long:              "Removes one value from the ConfigMap: the value of the files and schemas is in force again." + aboutEdits,
		Example:           "  addon-operator values unset ingress-nginx.controller.replicas\n  addon-operator values unset ingressNginxEnabled",
		Args:              cli.OneArg("the path of one value, as global.a.b"),
		RunE:              func(cmd *cobra.Command, args []string) error { return v.run(cmd, args[0]) },
		ValidArgsFunction: first(names.modules),
	}
	v.flags(cmd)
	return cmd
}

func (v *valueEdit) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&v.dryRun, "dry-run", false, "validate and print what would change, and write nothing")
	cmd.Flags().BoolVar(&v.create, "create", false, "create the ConfigMap although it is unknown what it held; everything that it held is then removed")
	cmd.Flags().BoolVar(&v.secrets, "show-secrets", false, "show what looks like a secret")
}

// value reads VALUE.
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
	if v.text {
		text := string(data)
		if v.file != "" {
			text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
		}
		return text, nil
	}
	value, err := values.ParseYAML(data)
	if err != nil {
		return nil, cli.Usagef("the value is not YAML: %w; --string takes it as a string", err)
	}
	return value, nil
}

func (v *valueEdit) run(cmd *cobra.Command, path string) error {
	var err error
	if v.edit.Path, err = values.ParsePath(path); err != nil {
		return cli.Usagef("%w", err)
	}
	if len(v.edit.Path) > 0 && strings.Contains(v.edit.Path[0], "-") { // the name of a module
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

// attempt reads, edits, validates, and writes over exactly what it has read.
func (v *valueEdit) attempt(cmd *cobra.Command, client *kube.Client) error {
	ctx, c := cmd.Context(), v.config
	configMap := client.ConfigMap(c.Namespace, c.ConfigMap)
	read, err := configMap.Read(ctx)
	if err != nil {
		return err
	}
	current := read.Data
	notes := []string{}
	if !read.Exists() {
		restored, note, err := v.lastValid(ctx, client)
		if err != nil {
			return err
		}
		current = restored
		notes = append(notes, note)
	}
	edited, err := v.edit.Apply(current)
	if err != nil {
		return err
	}
	path := values.Dotted(v.edit.Path)
	refuses, by := v.validator(ctx, client)
	if edited.Unchanged(v.edit) && (read.Exists() || len(current) == 0) { // a deleted one is created again
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is unchanged: %s\n", path, v.word(edited.Before, edited.Had))
		return err
	}
	next := maps.Clone(current)
	if next == nil {
		next = map[string]string{}
	}
	if delete(next, edited.Key); edited.Text != nil {
		next[edited.Key] = *edited.Text
	}
	still, err := v.validate(refuses, current, next)
	if err != nil {
		return err
	}
	by = cmp.Or(still, by)
	notes = append(notes, by)
	secret := fmt.Sprintf("Secret %s/%s", c.Namespace, c.SecretName())
	if v.special.marked && !v.edit.Remove {
		notes = append(notes, "it is marked as a secret: in the "+secret+" fewer people can read it")
	}
	if v.special.inSecret {
		notes = append(notes, "it has NO effect: the "+secret+" has a value there, which wins")
	}
	done := "would be written (dry run)"
	if !v.dryRun {
		written, err := configMap.Update(ctx, read, next)
		if err != nil {
			return err
		}
		done = "is written, resourceVersion " + written.ResourceVersion
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %s -> %s\n", path, v.word(edited.Before, edited.Had), v.word(v.edit.Value, !v.edit.Remove))
	_, err = fmt.Fprintf(cmd.ErrOrStderr(), "%s %s; %s\n", configMap, done, strings.Join(slices.DeleteFunc(notes, func(n string) bool { return n == "" }), "; "))
	return err
}

// word is a value for people.
func (v *valueEdit) word(value any, there bool) string {
	if !there {
		return "(none)"
	}
	if !v.secrets && v.special.marked {
		return `"` + values.Hidden + `"`
	}
	if !v.secrets {
		value = values.MaskAt(v.edit.Path, value)
	}
	return shown(nil, value)
}

// lastValid is what a ConfigMap held that does not exist, and where that is known from.
func (v *valueEdit) lastValid(ctx context.Context, client *kube.Client) (map[string]string, string, error) {
	c := v.config
	answer, err := v.ask(ctx, map[string]string{})
	switch {
	case err == nil && len(answer.LastValid) > 0: // also when the operator has not seen the deletion yet
		return answer.LastValid, "it was deleted, and is created again with its last valid content, as the operator has it in force", nil
	case err == nil:
		return nil, "it is new", nil
	}
	store := client.LastValid(c.Namespace, c.ConfigMap)
	kept, errKept := store.Read(ctx)
	switch {
	case kept != nil && len(kept.Config) > 0:
		return kept.Config, fmt.Sprintf("it was deleted, and is created again with its last valid content, from %s", store), nil
	case kept != nil || v.create:
		return nil, "it is new", nil
	}
	return nil, "", fmt.Errorf("ConfigMap %s/%s does not exist, and it is unknown whether the operator has values in force that it held: %w; "+
		"ask where the operator answers, or write it all the same with --create, which removes what it held", c.Namespace, c.ConfigMap, errors.Join(err, errKept))
}

// meet finds out whether the operator that answers is the one whose values are written, and where it has them.
func (v *valueEdit) meet(ctx context.Context, client *kube.Client) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	c := v.config
	to, err := choose(ctx, c)
	if err != nil {
		return err
	}
	its, err := to.identity(ctx)
	if err != nil {
		return err
	}
	mine := client.RESTConfig().Host
	if its.cluster != "" && !asksCluster(c) && strings.TrimSuffix(its.cluster, "/") != strings.TrimSuffix(mine, "/") {
		return fmt.Errorf("the one on %s serves another cluster, %s, not %s", to.where, its.cluster, mine)
	}
	namespace, name, said := strings.Cut(its.configMap, "/")
	if said && namespace == c.Namespace && !c.Given("config-map") {
		c.ConfigMap = name
	}
	if said && its.configMap != c.Namespace+"/"+c.ConfigMap {
		return fmt.Errorf("the one on %s has its values in the ConfigMap %s, not in %s/%s", to.where, its.configMap, c.Namespace, c.ConfigMap)
	}
	return nil
}

// ask asks the running operator whether it would take these data.
func (v *valueEdit) ask(ctx context.Context, data map[string]string) (answer messages.ConfigChecked, err error) {
	if v.away != nil {
		return answer, v.away
	}
	body, err := json.Marshal(data)
	if err != nil {
		return answer, err
	}
	got, err := send(ctx, v.config, answerLimit, http.MethodPost, "/values/check?show-secrets=true&path="+url.QueryEscape(jsonPointer(v.edit.Path)), "application/json", string(body))
	if err != nil {
		return answer, err
	}
	return answer, decoded(got, &answer)
}

func jsonPointer(path []string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var text strings.Builder
	for _, element := range path {
		text.WriteString("/" + escape.Replace(element))
	}
	return text.String()
}

// validate refuses data that would not be in force, unless those before would not be either
// and nothing new is wrong with them: then it says what. Without refuses only the form counts.
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
	if !within(problems, unreadable(before)+"\n"+was) {
		return "", fmt.Errorf("nothing is written, the ConfigMap would be refused: %s", problems)
	}
	return "it is still refused: " + problems, nil
}

// unreadable returns which keys of a ConfigMap cannot be read, and why.
func unreadable(data map[string]string) string {
	if _, err := values.ParseConfigMap(data); err != nil {
		return err.Error()
	}
	return ""
}

// readableKeys leaves these keys out, so that the others can be checked.
func readableKeys(data map[string]string) map[string]string {
	rest := maps.Clone(data)
	maps.DeleteFunc(rest, func(key, text string) bool { return unreadable(map[string]string{key: text}) != "" })
	return rest
}

// validator finds who can validate, and asks what is special about the value.
func (v *valueEdit) validator(ctx context.Context, client *kube.Client) (refuses func(map[string]string) (string, error), by string) {
	answer, errAsk := v.ask(ctx, map[string]string{})
	if errAsk == nil {
		v.special = special{answer.Marked, answer.InSecret}
		return func(data map[string]string) (string, error) {
			answer, err := v.ask(ctx, data)
			return answer.Refused, err
		}, "validated by the running operator"
	}
	why := "there are no modules in " + v.config.ModulesDir
	tree, err := addons.Load(v.config.Dirs)
	if err == nil && len(tree.Modules) > 0 {
		by := "validated by the schemas in " + v.config.ModulesDir
		secret, err := client.Secret(v.config.Namespace, v.config.SecretName()).Read(ctx)
		if err != nil { // what is required may lie there
			by += ", without the values in the Secret, which cannot be read"
		}
		marked, errMarks := check.MarkedSecrets(tree)
		v.special.marked = errMarks == nil && marked(v.edit.Path)
		return func(data map[string]string) (string, error) {
			refused := ""
			if problem := check.ConfigMap(tree, data, secret.Data, slog.New(slog.DiscardHandler), nil); problem != nil {
				refused = problem.Error()
			}
			return refused, nil
		}, by
	}
	if err != nil {
		why = err.Error()
	}
	return nil, fmt.Sprintf("NOT validated by any schema: no operator answers (%s), and %s; 'kubectl -n %s describe configmap %s' shows whether it is in force", errAsk, why, v.config.Namespace, v.config.ConfigMap)
}

// within reports whether each line of a refusal was in the one before.
func within(refused, before string) bool {
	was := strings.Split(before, "\n")
	return !slices.ContainsFunc(strings.Split(refused, "\n"), func(line string) bool { return !slices.Contains(was, line) })
}
