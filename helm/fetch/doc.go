// Package fetch gets charts of others as 'helm pull' and 'helm dependency build' do: from
// directories, archives, repositories and registries, with Helm's own library, its configuration
// (HELM_*, repositories.yaml, registry login) and its plugins. Everything that arrives is bounded.
// It writes below the directory that it is given, and to a temporary one that it removes.
//
// It runs in commands of a person, with the person's files and credentials, and never in the
// operator. So the content of a chart is hostile here in two more ways: it must not read files of
// the person (links, file:// dependencies), and must not send credentials to another host.
package fetch
