package bring

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"addon-operator/addons"
	"addon-operator/cmd/cli"
	"addon-operator/values"
)

// configured are the settings of people in ConfigMap and Secret of the operator, in addition to the
// files. The zero value has none.
type configured struct {
	doc   values.Document
	words string // where the values are from, for people
	note  string // why it is not known what the cluster has
	// secrets are texts that are not shown: those that a schema marks, and those of the Secret.
	// merged adds to them, so output is hidden after the last call of it.
	secrets []string
}

// configLimit is how long the cluster may take for all answers. A person waits.
const configLimit = 20 * time.Second

// configured reads the ConfigMap that was given, or that of the cluster. With --from auto a cluster
// that cannot be read is no error: the note reports it, and the files count.
func (u *upgrading) configured(ctx context.Context) (known configured, err error) {
	known.words = "on disk"
	if u.file != "" {
		data, err := cli.ReadConfigMap(u.file)
		if err == nil {
			known.doc, err = values.ParseConfigMap(data)
		}
		known.words += " and in " + u.file
		return known, err
	}
	if u.from == "files" {
		return known, nil
	}
	doc, note, err := u.ask(ctx)
	switch {
	case err == nil:
		known.doc, known.note = doc, note
		known.words += fmt.Sprintf(" and in ConfigMap %s/%s", u.config.Namespace, u.config.ConfigMap)
	// The user wants the values of the cluster, so a part of them is not enough.
	case u.from == "cluster":
		return known, err
	default:
		known.note = "Values of a ConfigMap are not included, because no cluster was read: " + err.Error()
	}
	return known, nil
}

// ask reads ConfigMap and Secret in the cluster. In place of a ConfigMap that was deleted the last
// valid content counts, as for the operator (P1). The note names the parts that could not be read.
func (u *upgrading) ask(ctx context.Context) (doc values.Document, note string, err error) {
	c := u.config
	if c.Namespace == "" {
		return doc, "", cli.Usagef("no namespace is given; set --namespace or $ADDON_OPERATOR_NAMESPACE to that of the operator")
	}
	ctx, cancel := context.WithTimeout(ctx, configLimit)
	defer cancel()
	client, err := c.Connect()
	if err != nil {
		return doc, note, err
	}
	read, err := client.ConfigMap(c.Namespace, c.ConfigMap).Read(ctx)
	if err != nil {
		return doc, note, err
	}
	secret, err := client.Secret(c.Namespace, c.SecretName()).Read(ctx)
	switch {
	case apierrors.IsForbidden(err): // a user without this permission gets the rest
		note = fmt.Sprintf("Values of Secret %s/%s are not included, because you have no permission to read it.", c.Namespace, c.SecretName())
	case err != nil:
		return doc, "", err
	}
	if !read.Exists() {
		if kept, _ := client.LastValid(c.Namespace, c.ConfigMap).Read(ctx); kept != nil {
			read.Data = kept.Config
		}
	}
	// An invalid ConfigMap is an error: the operator would have other values in force, which are
	// not known here.
	if doc, err = values.ParseConfigMap(read.Data); err != nil {
		return doc, note, err
	}
	doc.Secrets, err = values.ParseSecret(secret.Data)
	return doc, note, err
}

// layers are the values that people have given to a module, with their places, without defaults of
// schemas.
func (k configured) layers(m addons.Module) []values.Layer {
	layers := slices.Clone(m.Static)
	for source, section := range map[string]any{"the ConfigMap": k.doc.Sections[m.Key], "the Secret with values": k.doc.Secrets[m.Key]} {
		if section != nil {
			layers = append(layers, values.Layer{Source: source, Value: section})
		}
	}
	return layers
}

// merged returns the values with which the operator would render a module, by section, without
// those that hooks set. It validates the sections that ConfigMap or Secret have, and fails as the
// operator would.
func (k *configured) merged(m addons.Module, global addons.Global) (map[string]any, error) {
	merged := map[string]any{}
	for key, of := range map[string]struct {
		schemas *values.Schemas
		static  []values.Layer
	}{values.GlobalKey: {global.Schemas, global.Static}, m.Key: {m.Schemas, m.Static}} {
		section, err := values.NewSection(key, of.schemas, of.static...)
		if err == nil {
			section, err = section.WithConfig(k.doc.Sections[key], values.Origin{})
		}
		if err == nil {
			section, err = section.WithSecret(k.doc.Secrets[key], values.Origin{})
		}
		if err != nil {
			return nil, err
		}
		// They are collected before the validation, whose error may quote them.
		k.secrets = append(k.secrets, section.Secrets().Texts()...)
		if k.doc.Stored(key) != nil {
			if err := section.ValidateConfig(); err != nil {
				return nil, err
			}
		}
		merged[key] = section.Merged()
	}
	return merged, nil
}
