{{- define "tidegate-worker.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "tidegate-worker.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tidegate-worker.labels" -}}
{{ include "tidegate-worker.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "tidegate-worker.account" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "tidegate-worker.name" .) }}{{ else }}{{ required "serviceAccount.name: name the ServiceAccount, or set serviceAccount.create" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{- define "tidegate-worker.image" -}}
{{- with .Values.image }}{{ if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}{{ end }}
{{- end }}

{{/* names of the queues that workers serve: those of the Queue objects' specs, else of the objects */}}
{{- define "tidegate-worker.queues" -}}
{{- $names := list -}}
{{- range $name, $spec := .Values.queues -}}
{{- $served := dig "name" $name (default dict $spec) -}}
{{- if regexMatch "[[:space:]]" $served -}}
{{- fail (printf "queues.%s.name: %q has a blank in it, and TIDEGATE_QUEUES is a list with blanks between names; give such queues in a Deployment of your own" $name $served) -}}
{{- end -}}
{{- $names = append $names $served -}}
{{- end -}}
{{- $names | sortAlpha | join " " -}}
{{- end }}
