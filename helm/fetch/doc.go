// Package fetch gets charts of others as 'helm install' and 'helm dependency build' do: from
// directories, archives, repositories and registries, with Helm's own library, its configuration
// (HELM_*, repositories.yaml, registry login) and its plugins. It writes below the directory that it
// is given, and to a temporary one that it removes.
//
// It runs in commands of a person, with the person's files and credentials, and never in the
// operator. So a chart of others must not read files of the person by links or file:// dependencies.
package fetch
