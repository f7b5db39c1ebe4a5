// The site that `make docs` builds from this directory. What lies outside of it, such as the README, is linked to where the
// repository can be read, DOCS_REPOSITORY, or not at all.
import { copyFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { defineConfig } from 'vitepress'

const { resolve } = createRequire(import.meta.url)
const repository = process.env.DOCS_REPOSITORY
const base = process.env.DOCS_BASE || '/'
const version = process.env.DOCS_VERSION || 'unreleased'

// Versions that are published next to this one: DOCS_VERSIONS="v0.2.0=/v0.2.0/ v0.1.0=/v0.1.0/".
const versions = (process.env.DOCS_VERSIONS || '').split(' ').filter(Boolean).map((entry) => {
  const [text, link] = entry.split('=')
  return { text, link, target: '_self' }
})

const pages = (title, names, more = {}) => ({ text: title, items: names.map(([text, link]) => ({ text, link })), ...more })

const guide = [
  pages('Begin', [['What it is', '/concepts'], ['Your first hour', '/getting-started'], ['Install', '/install'], ['Glossary', '/glossary'], ['Questions', '/faq']]),
  pages('Write modules', [['Modules', '/modules'], ['Hooks', '/hooks'], ['Webhooks', '/webhooks'], ['Values', '/values'], ['Charts', '/charts'], ['Testing modules', '/testing-modules']]),
  pages('Operate', [
    ['Running', '/running'], ['Delivery of modules', '/delivery'], ['Upgrading', '/upgrading'], ['Compatibility', '/compatibility'], ['High availability', '/high-availability'], ['Module objects', '/module-objects'],
    ['Plan and drift', '/plan'], ['Metrics', '/metrics'], ['Alerts', '/alerts'], ['Traces', '/tracing'], ['Troubleshooting', '/troubleshooting'], ['Security', '/security'],
  ]),
  pages('Tasks', [
    ['Rotate a password', '/tasks/rotate-a-password'], ['Pause a module', '/tasks/pause-a-module'], ['Give a module a namespace', '/tasks/namespace-of-a-module'],
    ['See what will change', '/tasks/see-what-will-change'], ['A Pod with few rights', '/tasks/few-rights'],
  ]),
  pages('Move here', [
    ['From addon-operator', '/migrate/from-addon-operator'], ['From shell-operator', '/migrate/from-shell-operator'], ['From Helm', '/migrate/from-helm'],
    ['From Helmfile', '/migrate/from-helmfile'], ['From Flux', '/migrate/from-flux'], ['From Argo CD', '/migrate/from-argo-cd'], ['Comparison', '/comparison'],
  ]),
  pages('Reference', [['Commands', '/cli'], ['Options', '/running#options'], ['Differences', '/differences']]),
]

export default defineConfig({
  title: 'addon-operator',
  description: 'Keeps the add-ons of a Kubernetes cluster installed',
  base,
  cleanUrls: true,
  lastUpdated: false, // the same bytes each time
  srcExclude: ['.vitepress/**'],
  // It is large, and only some pages have pictures: they load it by themselves.
  buildEnd: ({ outDir }) => copyFile(resolve('mermaid/dist/mermaid.min.js'), outDir + '/mermaid.js'),
  head: [['link', { rel: 'icon', href: base + 'icon.svg', type: 'image/svg+xml' }]],
  markdown: {
    anchor: { slugify },
    config(md) {
      outsideLinks(md)
      plainText(md)
      mermaid(md)
    },
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [
      { text: 'First hour', link: '/getting-started' },
      { text: 'Modules', link: '/modules' },
      { text: 'Operate', link: '/running' },
      { text: 'Commands', link: '/cli' },
      versions.length ? { text: version, items: versions } : { text: version, link: '/concepts' },
    ],
    sidebar: guide,
    socialLinks: repository ? [{ icon: 'github', link: repository }] : [],
  },
})

// slugify names headings as the places do that show the repository, so that a link works in both.
function slugify(heading) {
  return heading.trim().toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, '').replace(/\s/g, '-')
}

// outsideLinks has links that leave docs/ lead to the repository.
function outsideLinks(md) {
  md.core.ruler.push('outside-links', (state) => {
    for (const block of state.tokens) {
      const open = []
      for (const token of block.children || []) {
        if (token.type === 'link_open') {
          const href = token.attrGet('href')
          open.push(token)
          if (!/^(\.\.\/)+/.test(href)) continue
          const path = href.replace(/^(\.\.\/)+/, '')
          if (repository) token.attrSet('href', `${repository}/blob/main/${path}`)
          else [token.tag, token.type, token.attrs] = ['span', 'span_open', null]
        }
        if (token.type === 'link_close') {
          token.tag = open.pop().tag
          if (token.tag === 'span') token.type = 'span_close'
        }
      }
    }
  })
}

// plainText has braces of templates and words in angle brackets shown as they are written: pages have no components.
function plainText(md) {
  for (const rule of ['text', 'code_inline']) {
    const render = md.renderer.rules[rule]
    md.renderer.rules[rule] = (...args) => render(...args).replaceAll('{{', '&#123;&#123;')
  }
  // What links a heading to itself is an empty sign, which VitePress itself writes as an entity.
  md.renderer.rules.html_inline = (tokens, i) => {
    const { content, meta } = tokens[i]
    return meta?.isPermalinkSymbol ? content : md.utils.escapeHtml(content)
  }
}

// mermaid draws fences of that name in the reader's colours.
function mermaid(md) {
  const fence = md.renderer.rules.fence
  md.renderer.rules.fence = (tokens, i, ...rest) => {
    if (tokens[i].info.trim() !== 'mermaid') return fence(tokens, i, ...rest)
    return `<Mermaid text="${encodeURIComponent(tokens[i].content)}" />`
  }
}
