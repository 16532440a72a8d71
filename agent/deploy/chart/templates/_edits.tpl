{{/*
What the values change in the objects of base/. Each edit takes a dictionary of the object
and the root context, changes the object in place, and prints nothing.
*/}}

{{- define "agent.objects" -}}
{{- range $text := .root.Files.Get .file | splitList "\n---\n" }}
{{- $object := fromYaml $text }}
{{- $edited := dict "object" $object "root" $.root }}
{{- include "agent.edit.metadata" $edited }}
{{- if has $object.kind (list "ClusterRole" "DaemonSet" "NetworkPolicy" "ValidatingAdmissionPolicy") }}
{{- include (printf "agent.edit.%s" $object.kind) $edited }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end -}}

{{/* Leases of nodes are always in the same namespace. */}}
{{- define "agent.edit.metadata" -}}
{{- $_ := merge .object.metadata.labels (include "agent.labels" .root | fromYaml) -}}
{{- with .root.Values.annotations -}}
{{- $_ := set $.object.metadata "annotations" (deepCopy .) -}}
{{- end -}}
{{- if eq (get .object.metadata "namespace") "kube-system" -}}
{{- $_ := set .object.metadata "namespace" .root.Release.Namespace -}}
{{- end -}}
{{- range get .object "subjects" | default list -}}
{{- $_ := set . "namespace" $.root.Release.Namespace -}}
{{- end -}}
{{- end -}}

{{/* What all objects have in common. */}}
{{- define "agent.labels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "agent.edit.ClusterRole" -}}
{{- $_ := set (index .object.rules 0) "resourceNames" (list .root.Values.driver) -}}
{{- end -}}

{{/* The only object that names the account in an expression. */}}
{{- define "agent.edit.ValidatingAdmissionPolicy" -}}
{{- $condition := index .object.spec.matchConditions 0 -}}
{{- $_ := set $condition "expression" (replace "serviceaccount:kube-system:" (printf "serviceaccount:%s:" .root.Release.Namespace) $condition.expression) -}}
{{- end -}}

{{- define "agent.edit.NetworkPolicy" -}}
{{- with .root.Values.networkPolicy.ingressFrom -}}
{{- $_ := set (index $.object.spec.ingress 0) "from" . -}}
{{- end -}}
{{- end -}}

{{- define "agent.edit.DaemonSet" -}}
{{- $values := .root.Values -}}
{{- $_ := set .object.spec.updateStrategy.rollingUpdate "maxSurge" $values.maxSurge -}}
{{- $template := .object.spec.template -}}
{{- $_ := merge $template.metadata.labels $values.podLabels -}}
{{- with $values.podAnnotations -}}
{{- $_ := set $template.metadata "annotations" (deepCopy .) -}}
{{- end -}}
{{- range $field := list "nodeSelector" "tolerations" "affinity" "priorityClassName" "imagePullSecrets" -}}
{{- with index $values $field -}}
{{- $_ := set $template.spec $field . -}}
{{- end -}}
{{- end -}}
{{- range $volume := $template.spec.volumes -}}
{{- $path := replace "/var/lib/kubelet" $values.kubeletDir $volume.hostPath.path | replace "/var/run/cdi" $values.cdiDir -}}
{{- $_ := set $volume.hostPath "path" $path -}}
{{- end -}}
{{/* The agent tells kubelet the paths of sockets: they must be those of the node. */}}
{{- range $mount := (index $template.spec.containers 0).volumeMounts -}}
{{- $_ := set $mount "mountPath" (replace "/var/lib/kubelet" $values.kubeletDir $mount.mountPath) -}}
{{- end -}}
{{- include "agent.edit.container" (dict "container" (index $template.spec.containers 0) "values" $values) -}}
{{- end -}}

{{- define "agent.edit.container" -}}
{{- $image := .values.image -}}
{{- $tag := $image.tag | default (splitList ":" .container.image | last) -}}
{{- $_ := set .container "image" (empty $image.digest | ternary (printf "%s:%s" $image.repository $tag) (printf "%s@%s" $image.repository $image.digest)) -}}
{{- with $image.pullPolicy -}}
{{- $_ := set $.container "imagePullPolicy" . -}}
{{- end -}}
{{- with .values.resources -}}
{{- $_ := set $.container "resources" . -}}
{{- end -}}
{{- $arguments := list -}}
{{- range .container.args -}}
{{- $arguments = append $arguments (hasPrefix "--driver=" . | ternary (printf "--driver=%s" $.values.driver) .) -}}
{{- end -}}
{{- if ne .values.kubeletDir "/var/lib/kubelet" -}}
{{- $arguments = append $arguments (printf "--kubelet-dir=%s" .values.kubeletDir) -}}
{{- end -}}
{{- $_ := set .container "args" (concat $arguments .values.extraArgs) -}}
{{- end -}}
