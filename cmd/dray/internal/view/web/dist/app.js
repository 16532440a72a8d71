function o(n,e={},...t){let s=document.createElement(n);for(let[i,a]of Object.entries(e))typeof a=="function"?s.addEventListener(i,a):a===!0?s.setAttribute(i,""):a!==!1&&a!==void 0&&s.setAttribute(i,String(a));return J(s,t),s}function J(n,e){for(let t of e)Array.isArray(t)?J(n,t):typeof t=="string"?n.append($(t)):t&&n.append(t)}function v(n,...e){n.replaceChildren(),J(n,e)}var Pe=/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;function $(n){return n.replace(Pe,e=>"\\u"+e.charCodeAt(0).toString(16).padStart(4,"0"))}var h=n=>o("bdi",{},n),y=(n,e,t={})=>o("button",{type:"button",click:e,...t},n),x=(n,e)=>`${n.toLocaleString("en")} ${e}${n===1?"":"s"}`;var M=["free","used","shared","blocked","tainted","unusable","unreached"],k={free:{name:"free",help:"can be allocated now"},used:{name:"held",help:"held by a claim"},shared:{name:"shared in part",help:"held by claims, and more shares may be had"},blocked:{name:"blocked",help:"free, but siblings have used up the counters that it draws on"},tainted:{name:"tainted",help:"free, but a taint keeps claims away that do not tolerate it"},unusable:{name:"unusable",help:"its pool cannot be used: slices are missing or contradict each other"},unreached:{name:"not reachable",help:"free, but no node reaches it"}},C=n=>n.driver+"/"+n.name;function A(n){return re({revision:n.revision,source:n.source,time:n.time,shapes:n.shapes,waiting:n.waiting,notes:n.notes??[],nodes:new Map(n.nodes.map(e=>[e.name,e])),pools:new Map(n.pools.map(e=>[C(e),e])),claims:new Map(Object.entries(n.claims)),own:new Map,lanes:[]})}function re(n){n.own=new Map,n.lanes=[];for(let e of n.pools.values()){let t=e.nodes?.length===1?e.nodes[0]:void 0;t===void 0?n.lanes.push(e):n.own.has(t)?n.own.get(t).push(e):n.own.set(t,[e])}return n}function X(n,e){if(!e)return n;let t=new Map(n);for(let[s,i]of Object.entries(e))i===null?t.delete(s):t.set(s,i);return t}function j(n,e){return re({...n,revision:e.revision,time:e.time,nodes:X(n.nodes,e.nodes),pools:X(n.pools,e.pools),claims:X(n.claims,e.claims),shapes:e.shapes?n.shapes.concat(e.shapes):n.shapes,waiting:e.waiting??n.waiting,notes:e.notes??n.notes})}var W=(n,e)=>C(n)+"/"+e.name;function O(n,e){let t=new Set;for(let[s,i]of e.pools){let a=n.pools.get(s);if(a===i)continue;let r=new Map(a?.devices.map(l=>[l.name,l]));for(let l of i.devices){let c=r.get(l.name);(!c||c.state!==l.state||JSON.stringify(c.held)!==JSON.stringify(l.held))&&t.add(W(i,l))}}return t}function L(n){let e=Object.fromEntries(M.map(t=>[t,0]));for(let t of n.pools.values())for(let s of t.devices)e[s.state]++;return e}var Z=n=>o("dl",{},n.filter(([,e])=>e!==void 0&&e!=="").map(([e,t])=>[o("dt",{},e),o("dd",{},...Array.isArray(t)?t:[typeof t=="string"?h(t):t])])),F=n=>o("div",{class:"bars"},n.map(e=>o("div",{},o("span",{},h(e.name),` ${e.left} of ${e.total} left`),o("meter",{min:0,max:1,value:1-e.part,"aria-label":`${e.name}: in use`})))),Te=n=>Object.entries(n??{}).sort(([e],[t])=>e<t?-1:1),_=n=>{let e=Te(n);return e.length?o("ul",{class:"plain"},e.map(([t,s])=>o("li",{},h(t)," = ",h(s)))):void 0};function Q(n,e){let t=e.lastIndexOf("/"),s=n.pools.get(e.slice(0,t)),i=s?.devices.find(a=>a.name===e.slice(t+1));return s&&i?[s,i]:void 0}function le(n,e,t){let s=Q(n,e);if(!s)return;let[i,a]=s,r=n.shapes[a.shape],l=(a.held??[]).map(d=>{let p=n.claims.get(d.claim);return o("li",{},"claim ",h(d.claim),", request ",h(d.request),p?.pods?.length?o("div",{},"pod ",h(p.pods.slice(0,8).join(", ")),p.pods.length>8?` and ${p.pods.length-8} more`:""):null,o("div",{class:"faint"},p?.since?`since ${p.since.replace("T"," ").replace("Z"," UTC")}`:"since when is not known"))}),c=(a.sets??[]).map(d=>i.sets[d]);return[o("h2",{},"Device ",h(a.name)),Z([["State",`${k[a.state].name}: ${k[a.state].help}`],["Product",r.product],["Driver",i.driver],["Pool",i.name],["Node",i.nodes?.length===1?S(i.nodes[0],"node/"+i.nodes[0],t):`${x(i.nodes?.length??0,"node")} ${(i.nodes??[]).slice(0,5).join(", ")}`],["Why",i.problem??a.blockedBy],["Held by",l.length?o("ul",{class:"plain"},l):void 0],["Taints",a.taints?.join(", ")],["Capacity",a.capacity?.length?F(a.capacity):_(r.capacity)],["Counters",c.length?o("div",{},c.map(d=>[o("div",{},h(d.name)),F(d.counters)])):void 0],["Attributes",_({...r.attributes,...a.own})]]),t.ask?o("p",{class:"actions"},y("What if it is tainted?",()=>t.ask("taint","device/"+e))):o("p")]}var S=(n,e,t)=>y(h(n),()=>t.select(e),{class:"link"});function ce(n,e,t){let s=n.nodes.get(e);if(!s)return;let i=n.own.get(e)??[],a=n.lanes.filter(r=>r.nodes?.includes(e));return[o("h2",{},"Node ",h(s.name)),Z([["Kind",s.kind],["Cordoned",s.cordoned?"yes: no pod is placed on it":void 0],["Taints",s.taints?.join(", ")],["Pools of several nodes",a.length?a.flatMap(r=>[S(r.name,"pool/"+C(r),t)," "]):void 0]]),t.ask?o("p",{class:"actions"},"What if ",y("it is cordoned",()=>t.ask("cordon",e)),y("it is drained",()=>t.ask("drain",e)),y("its devices are tainted",()=>t.ask("taint","node/"+e)),y("there are more like it",()=>t.ask("add",e))):o("p"),...i.flatMap(r=>pe(n,r,t)),o("details",{},o("summary",{},"Labels"),_(s.labels)??o("p",{},"none"))]}function de(n,e,t){let s=n.pools.get(e);if(!s)return;let i=s.nodes??[];return[o("h2",{},"Pool ",h(s.name)),Z([["Driver",s.driver],["Reached by",i.length?i.slice(0,20).flatMap(a=>[S(a,"node/"+a,t)," "]).concat(i.length>20?[`and ${i.length-20} more`]:[]):"no node"]]),...pe(n,s,t)]}function pe(n,e,t){return[o("h3",{},h(C(e))),e.problem?o("p",{class:"bad"},"Nothing can be allocated from it: ",h(e.problem)):o("p",{class:"faint"},x(e.devices.length,"device")),...(e.sets??[]).slice(0,16).map(i=>o("div",{},h(i.name),F(i.counters))),o("table",{},o("thead",{},o("tr",{},o("th",{},"Device"),o("th",{},"State"),o("th",{},"Held by"))),o("tbody",{},e.devices.slice(0,200).map(i=>o("tr",{},o("td",{},S(i.name,"device/"+W(e,i),t)),o("td",{},k[i.state].name),o("td",{},h([...new Set((i.held??[]).map(a=>n.claims.get(a.claim)?.pods?.join(", ")||a.claim))].join(", "))))))),e.devices.length>200?o("p",{},`and ${e.devices.length-200} more`):o("p")]}function me(n,e){let t=o("h2",{},`${n.kind} `,h(`${n.namespace}/${n.name}`));if(n.node!==void 0&&n.answer<0)return[t,o("p",{},"It can be placed on ",S(n.node,"node/"+n.node,e),", with these devices, after what comes before it:"),o("ul",{},(n.devices??[]).map(i=>o("li",{},S(`${C({driver:i.driver,name:i.pool})}/${i.device}`,`device/${i.driver}/${i.pool}/${i.device}`,e))))];let s=o("div",{},o("p",{class:"faint"},"Asking why …"));return e.explain(n).then(i=>s.replaceChildren(...$e(i,n,e)),i=>s.replaceChildren(o("p",{class:"bad"},i.message))),[t,n.group?o("p",{},"Pod group ",h(n.group)):o("p"),s,e.ask&&n.kind==="Pod"?o("p",{class:"actions"},y("What if it goes?",()=>e.ask("remove",`${n.namespace}/${n.name}`))):o("p")]}function $e(n,e,t){return[(i=>o("p",{},h(i)))(n.error??n.reason??e.reason??""),e.like?o("p",{class:"faint"},"Refused for the same reasons as ",h(`${n.subject.namespace}/${n.subject.name}`),", whose explanation this is."):o("p"),n.placedBefore>0?o("p",{class:"faint"},`Looked at after placing the ${x(n.placedBefore,"workload")} before it.`):o("p"),...(n.refusals??[]).map((i,a)=>o("section",{class:"refusal"},o("h3",{},x(i.count,"node"),a===0&&(n.refusals?.length??0)>1?", which come closest":""),o("p",{class:"nodes"},i.nodes.slice(0,12).map(r=>[S(r,"node/"+r,t)," "]),i.nodes.length>12?`and ${i.nodes.length-12} more`:""),i.causes?.length?o("ul",{},i.causes.map(he)):o("p",{},h(i.summary)),i.uniform?null:o("p",{class:"faint"},"The figures are those of ",S(i.closest,"node/"+i.closest,t),"."),i.explanation?.nearestMiss?o("p",{},"Nearest miss: ",h(i.explanation.nearestMiss)):null)),...(n.notes??[]).map(i=>o("p",{},"Note: ",h(i))),n.notLookedAt?.length?o("p",{},"Not looked at: ",h(n.notLookedAt.join(", "))):o("p")]}var he=n=>o("li",{},h(n.text),n.rejections?.length?o("ul",{},n.rejections.map(e=>o("li",{},h(e.text),(e.details??[]).map(t=>o("div",{class:"faint"},h(t)))))):null,(n.hints??[]).map(e=>o("div",{class:"faint"},h(e))),n.alternatives?.length?o("ul",{},n.alternatives.map(he)):null);function ue(n,e){let t=500,s,i,a=()=>{i?.close(),i=new EventSource("api/events?revision="+n()),i.addEventListener("status",r=>{let l=JSON.parse(r.data);t=500,e.lost(l.lost&&"The cluster does not answer: "+l.lost,l.live)}),i.addEventListener("delta",r=>e.delta(JSON.parse(r.data))),i.addEventListener("whole",()=>e.whole()),i.addEventListener("error",()=>{i?.close(),e.lost("dray view does not answer: it may have ended",!0),setTimeout(a,t),t=Math.min(t*2,1e4)})};a(),document.addEventListener("visibilitychange",()=>{clearTimeout(s),document.hidden?s=setTimeout(()=>i?.close(),Re):i?.readyState===EventSource.CLOSED&&a()})}var Re=6e4,Ne=15*6e4,Ae=4e6,z=class{steps=[];size=0;get length(){return this.steps.length}add(e,t,s){for(this.steps.push({time:Date.now(),before:e,after:t,size:s}),this.size+=s;this.steps.length>600||this.size>Ae||this.steps.length&&this.steps[0].time<Date.now()-Ne;)this.size-=this.steps.shift().size}at(e){if(e===0&&this.steps.length)return{world:this.steps[0].before,time:this.steps[0].time};let t=this.steps[e-1];return t&&{world:t.after,time:t.time}}},fe=(n,e)=>e.from===n.revision?j(n,e):void 0;var D=24,R=15,P=4,T=6,Le=18,ee=4;function De(n){return n.map(e=>e.devices.length+":"+(e.sets??[]).map(t=>t.whole+"."+t.counters.length).join()+":"+e.devices.map(t=>t.sets?.join("+")??"").join()).join("|")}function Ve(n){let e={w:0,h:0,cells:[],bars:[],titles:[]},t=n.reduce((c,d)=>c+d.devices.length,0),s=Math.max(4*(D+P),Math.ceil(Math.sqrt(t)*1.5)*(D+P)),i=T,a=Le,r=0,l=(c,d)=>{i>T&&i+c>s+T&&(i=T,a+=r+P,r=0);let p={x:i,y:a,w:c,h:d};return i+=c+P,r=Math.max(r,d),e.w=Math.max(e.w,i),p};return n.forEach((c,d)=>{let p=new Set;(c.sets??[]).forEach((m,u)=>je(e,c,d,m,u,p,l)),c.devices.forEach((m,u)=>{p.has(u)||e.cells.push({...l(D,D),pool:d,device:u,frame:!1})})}),e.w=Math.max(e.w-P+T,4*(D+P)-P+2*T),e.h=a+r+T,e}function je(n,e,t,s,i,a,r){let l=e.devices.map((b,w)=>[b,w]).filter(([b,w])=>b.sets?.[0]===i&&!a.has(w)).map(([,b])=>b);if(l.length===0)return;l.forEach(b=>a.add(b));let c=l.filter(b=>b!==s.whole),d=Math.max(3,Math.ceil(Math.sqrt(c.length*1.6))),p=Math.ceil(c.length/d),m=10,u=d*(R+2)+8,f=m+p*(R+2)+s.counters.length*(ee+2)+8,g=r(u,f);s.whole>=0&&n.cells.push({...g,pool:t,device:s.whole,frame:!0}),n.titles.push({x:g.x+4,y:g.y+2,w:u-8,h:m,pool:t,set:i}),c.forEach((b,w)=>n.cells.push({x:g.x+5+w%d*(R+2),y:g.y+m+3+Math.floor(w/d)*(R+2),w:R,h:R,pool:t,device:b,frame:!1})),s.counters.forEach((b,w)=>n.bars.push({x:g.x+5,y:g.y+f-(s.counters.length-w)*(ee+2)-1,w:u-10,h:ee,pool:t,set:i,counter:w}))}var B=new Map;function ge(n){let e=De(n),t=B.get(e);return t||(B.size>2e3&&B.clear(),t=Ve(n),B.set(e,t)),t}function Oe(n,e,t){if(t==="pool"){let s=n.lanes.filter(i=>i.nodes?.includes(e)).map(i=>i.name);return s.length>0?"pool "+s.join(", "):"only pools of their own"}if(t.startsWith("label:")){let s=t.slice(6);return s+"="+(n.nodes.get(e).labels?.[s]??"(none)")}return n.nodes.get(e).kind}function te(n,e,t,s){let i={w:0,h:0,titleHeight:s,groups:[],boxes:new Map},a=new Map,r=e==="pool"?ze(n):void 0;for(let f of n.nodes.values()){let g=r?r.get(f.name)??"only pools of their own":Oe(n,f.name,e),b=n.own.get(f.name)??[],w=ge(b),Y={key:"node/"+f.name,title:f.name,node:f.name,pools:b.map(C),plan:w,x:0,y:0,w:w.w,h:w.h};a.has(g)||a.set(g,[]),a.get(g).push(Y),i.boxes.set(Y.key,Y)}let l=[...a.keys()].sort((f,g)=>a.get(g).length-a.get(f).length||f.localeCompare(g,"en",{numeric:!0})),c=n.lanes.map(f=>{let g=ge([f]);return{key:"pool/"+C(f),title:f.name,pools:[C(f)],plan:g,x:0,y:0,w:g.w,h:g.h}});c.forEach(f=>i.boxes.set(f.key,f));let d=c.length>0?[{title:"Pools that several nodes reach, or none",boxes:c,lane:!0,x:0,y:0,w:0,h:0}]:[];for(let f of l){let g=a.get(f).sort((b,w)=>b.title.localeCompare(w.title,"en",{numeric:!0}));d.push({title:f,boxes:g,lane:!1,x:0,y:0,w:0,h:0})}let p=d.reduce((f,g)=>f+g.boxes.reduce((b,w)=>b+(w.w+8)*(w.h+8),0),0),m=Math.max(400,Math.sqrt(p*t),...d.map(f=>Math.max(...f.boxes.map(g=>g.w)))),u=0;for(let f of d)Be(f,u+s,m),f.y=u,u+=s+f.h+16,i.w=Math.max(i.w,f.w);return i.groups=d,i.h=Math.max(1,u-16),i.w=Math.max(1,i.w),i}function ze(n){let e=new Map;for(let t of n.lanes)for(let s of t.nodes??[])e.set(s,e.has(s)?e.get(s)+", "+t.name:"pool "+t.name);return e}function Be(n,e,t){let s=0,i=e,a=0;for(let r of n.boxes)s>0&&s+r.w>t&&(s=0,i+=a+8,a=0),r.x=s,r.y=i,s+=r.w+8,a=Math.max(a,r.h),n.w=Math.max(n.w,s-8);n.h=i+a-e}var V=class{constructor(e,t,s){this.canvas=e;this.context=e.getContext("2d",{alpha:!1}),this.world=t,this.by=s,this.layout=this.arranged(t),this.colours=H(),matchMedia("(prefers-color-scheme: dark)").addEventListener("change",()=>{this.colours=H(),this.draw()})}canvas;layout;world;marks={selected:"",focused:"",lit:new Set,changed:new Set};viewport={x:0,y:0,scale:1};frames=0;flashes=new Map;colours;context;planned=0;by="kind";arranged(e){let{clientWidth:t,clientHeight:s}=this.canvas,i=Math.max(.3,t/Math.max(1,s)),a=te(e,this.by,i,24),r=Math.min(t/a.w,s/a.h);return r>0&&r<.9&&(a=te(e,this.by,i,Math.min(21/r,a.h/Math.max(6,a.groups.length)))),a}show(e,t,s){let i=t!==this.by||s!==void 0||!qe(this.world,e);this.world=e,this.by=t,i&&(this.layout=s??this.arranged(e)),this.draw()}fit(){let{clientWidth:e,clientHeight:t}=this.canvas,s=Math.min((e-24)/this.layout.w,(t-24)/this.layout.h,2);Object.assign(this.viewport,{scale:s,x:-(e/s-this.layout.w)/2,y:this.layout.h*s<t*.7?-12/s:-(t/s-this.layout.h)/2}),this.draw()}resized(){this.layout=this.arranged(this.world),this.fit()}zoom(e,t,s){let i=this.viewport,a=.5*Math.min(this.canvas.clientWidth/this.layout.w,this.canvas.clientHeight/this.layout.h),r=Math.min(8,Math.max(Math.min(a,1),i.scale*e));i.x+=t/i.scale-t/r,i.y+=s/i.scale-s/r,i.scale=r,this.draw()}pan(e,t){this.viewport.x-=e/this.viewport.scale,this.viewport.y-=t/this.viewport.scale,this.draw()}reveal(e,t){let s=this.viewport,{clientWidth:i,clientHeight:a}=this.canvas;t&&s.scale<.9&&(s.scale=1.4),e.x>s.x&&e.y>s.y&&e.x+e.w<s.x+i/s.scale&&e.y+e.h<s.y+a/s.scale||Object.assign(s,{x:e.x+e.w/2-i/s.scale/2,y:e.y+e.h/2-a/s.scale/2}),this.draw()}flash(e){let t=performance.now()+1600;for(let s of e)this.flashes.set(s,t);this.draw()}hit(e,t){let s=this.viewport.x+e/this.viewport.scale,i=this.viewport.y+t/this.viewport.scale,a=(r,l=0,c=0)=>s>=r.x+l&&i>=r.y+c&&s<=r.x+l+r.w&&i<=r.y+c+r.h;for(let r of this.layout.groups)if(!(i<r.y||i>r.y+this.layout.titleHeight+r.h))for(let l of r.boxes){if(!a(l))continue;let c={box:l};if(24*this.viewport.scale<5)return c;for(let d of l.plan.cells){if(!a(d,l.x,l.y))continue;let p=this.world.pools.get(l.pools[d.pool]),m=p?.devices[d.device];m&&(c={box:l,pool:p,device:m})}return c}return{}}draw(){this.planned||(this.planned=requestAnimationFrame(()=>{this.planned=0,this.paint()}))}paint(){let{canvas:e,context:t,viewport:s,colours:i}=this,a=devicePixelRatio||1,r=e.clientWidth,l=e.clientHeight;(e.width!==Math.round(r*a)||e.height!==Math.round(l*a))&&(e.width=Math.round(r*a),e.height=Math.round(l*a)),t.setTransform(a,0,0,a,0,0),t.fillStyle=i.back,t.fillRect(0,0,r,l);let c=s.x+r/s.scale,d=s.y+l/s.scale,p=24*s.scale;for(let m of this.layout.groups)if(!(m.y>d||m.y+this.layout.titleHeight+m.h<s.y)){this.title(m.title,m.boxes.length,m.lane,(m.x-s.x)*s.scale,(m.y-s.y)*s.scale);for(let u of m.boxes)u.x>c||u.y>d||u.x+u.w<s.x||u.y+u.h<s.y||(p<5?this.farBox(u):this.nearBox(u,p))}this.glow(),this.frames++===0&&performance.mark("first-picture")}title(e,t,s,i,a){let r=this.layout.titleHeight*this.viewport.scale,l=Math.min(15,Math.max(8,r*.62)),c=this.context;r<9||(c.font=`600 ${l}px system-ui, sans-serif`,c.fillStyle=this.colours.text,c.textBaseline="middle",c.fillText(`${$(e).slice(0,120)}  ·  ${t} ${s?"pool":"node"}${t===1?"":"s"}`,Math.max(i,4),a+r/2))}isDim(e){let{matches:t,lit:s}=this.marks;return t?!t.has(e.key):s.size>0&&!s.has(e.key)}farBox(e){let{context:t,viewport:s,colours:i}=this,a=(e.x-s.x)*s.scale,r=(e.y-s.y)*s.scale,l=Math.max(1.5,e.w*s.scale),c=Math.max(1.5,e.h*s.scale),d=e.node!==void 0?this.world.nodes.get(e.node):void 0;if(e.node!==void 0&&!d)return;let p=M.map(()=>0),m=0;for(let f of e.pools){let g=this.world.pools.get(f);g&&(He(g).forEach((b,w)=>{p[w]+=b}),m+=g.devices.length)}t.globalAlpha=this.isDim(e)?.25:1,t.fillStyle=i.edge,t.fillRect(a,r,l,c);let u=a;for(let[f,g]of M.entries()){if(!p[f])continue;let b=l*p[f]/m;t.fillStyle=g==="free"?i.box:i[g],t.fillRect(u,r,b,c),u+=b}d?.cordoned&&(t.fillStyle=i.text,t.fillRect(a,r,l,Math.max(1,c/8))),t.globalAlpha=1,this.rings(e,a,r,l,c)}nearBox(e,t){let{context:s,viewport:i,colours:a}=this,r=(e.x-i.x)*i.scale,l=(e.y-i.y)*i.scale,c=e.w*i.scale,d=e.h*i.scale,p=e.node!==void 0?this.world.nodes.get(e.node):void 0;if(s.globalAlpha=this.isDim(e)?.3:1,e.node!==void 0&&!p){s.strokeStyle=a.faint,s.setLineDash([4,4]),s.strokeRect(r,l,c,d),s.setLineDash([]),s.globalAlpha=1;return}if(s.fillStyle=a.box,s.fillRect(r,l,c,d),s.strokeStyle=a.edge,s.lineWidth=1,s.strokeRect(r+.5,l+.5,c-1,d-1),t>=12){let m=Math.min(13,12*i.scale);s.font=`${m}px system-ui, sans-serif`,s.textBaseline="middle",s.fillStyle=a.text,s.save(),s.beginPath(),s.rect(r,l,c-4,d),s.clip(),s.fillText((p?.cordoned?"⊘ ":"")+$(e.title).slice(0,60),r+6*i.scale,l+9.5*i.scale),s.restore()}for(let m of e.plan.cells){let u=this.world.pools.get(e.pools[m.pool])?.devices[m.device];u&&this.cell(u.state,r+m.x*i.scale,l+m.y*i.scale,m.w*i.scale,m.h*i.scale,m.frame,(u.taints?.length??0)>0)}t>=14&&this.details(e,r,l),s.globalAlpha=1,this.rings(e,r,l,c,d),this.deviceRings(e,r,l)}details(e,t,s){let{context:i,viewport:a,colours:r}=this,l=a.scale;for(let c of e.plan.bars){let d=this.world.pools.get(e.pools[c.pool])?.sets?.[c.set]?.counters[c.counter];d&&(i.fillStyle=r.edge,i.fillRect(t+c.x*l,s+c.y*l,c.w*l,c.h*l),i.fillStyle=r.used,i.fillRect(t+c.x*l,s+c.y*l,c.w*l*(1-d.part),c.h*l))}if(i.fillStyle=r.text,l>.8){i.font=`${8*l}px system-ui, sans-serif`;for(let c of e.plan.titles){let d=this.world.pools.get(e.pools[c.pool])?.sets?.[c.set];d&&i.fillText($(d.name).slice(0,24),t+c.x*l,s+(c.y+c.h/2)*l,c.w*l)}}if(l>2.2)for(let c of e.plan.cells){let d=this.world.pools.get(e.pools[c.pool])?.devices[c.device];if(!d||c.frame)continue;let p=Math.max(9,4*l),m=t+c.x*l,u=s+(c.y+c.h)*l;i.font=`${p}px system-ui, sans-serif`,i.fillStyle=r.box,i.globalAlpha*=.85,i.fillRect(m+1,u-p-4,c.w*l-2,p+3),i.globalAlpha=this.isDim(e)?.3:1,i.fillStyle=r.text,i.fillText($(d.name).slice(0,30),m+2,u-p/2-2,c.w*l-4)}}cell(e,t,s,i,a,r,l){if(se(this.context,this.colours,e,t,s,i,a,r),l&&e!=="tainted"&&i>=8){let c=this.context,d=Math.min(i,a)*.35;c.fillStyle=this.colours.tainted,c.beginPath(),c.moveTo(t+i,s),c.lineTo(t+i-d,s),c.lineTo(t+i,s+d),c.fill()}}ring(e,t,s,i,a,r){this.context.strokeStyle=e,this.context.lineWidth=r,this.context.strokeRect(t-r/2,s-r/2,i+r,a+r)}rings(e,t,s,i,a){let{marks:r,colours:l}=this;r.lit.has(e.key)&&this.ring(l.lit,t,s,i,a,2),r.selected===e.key&&this.ring(l.accent,t,s,i,a,2),r.focused===e.key&&this.ring(l.text,t-2,s-2,i+4,a+4,2)}deviceRings(e,t,s){let{marks:i,colours:a,viewport:r}=this;if(!(!i.changed.size&&!i.lit.size&&!i.selected.startsWith("device/")&&!i.focused.startsWith("device/")))for(let l of e.plan.cells){let c=this.world.pools.get(e.pools[l.pool]),d=c?.devices[l.device];if(!c||!d)continue;let p="device/"+W(c,d),m=[t+l.x*r.scale,s+l.y*r.scale,l.w*r.scale,l.h*r.scale];i.changed.has(p)&&this.ring(a.lit,...m,2.5),i.lit.has(p)&&this.ring(a.lit,...m,2),i.selected===p&&this.ring(a.accent,...m,2.5),i.focused===p&&this.ring(a.text,m[0]-2,m[1]-2,m[2]+4,m[3]+4,2)}}glow(){if(this.flashes.size===0)return;let e=performance.now(),{context:t,viewport:s}=this;for(let[i,a]of this.flashes)a<e&&this.flashes.delete(i);for(let i of this.layout.groups)for(let a of i.boxes)for(let r of a.plan.cells){let l=this.world.pools.get(a.pools[r.pool]),c=l?.devices[r.device],d=l&&c?this.flashes.get(W(l,c)):void 0;if(d===void 0)continue;t.globalAlpha=Math.min(1,(d-e)/1e3);let p=3;this.ring(this.colours.lit,(a.x+r.x-s.x)*s.scale-p,(a.y+r.y-s.y)*s.scale-p,r.w*s.scale+2*p,r.h*s.scale+2*p,3)}t.globalAlpha=1,this.draw()}},ve=new WeakMap;function He(n){let e=ve.get(n);return e||(e=M.map(t=>n.devices.filter(s=>s.state===t).length),ve.set(n,e)),e}function qe(n,e){if(n.nodes.size!==e.nodes.size||n.pools.size!==e.pools.size)return!1;for(let[t,s]of e.nodes){let i=n.nodes.get(t);if(i!==s&&(!i||i.kind!==s.kind||JSON.stringify(i.labels)!==JSON.stringify(s.labels)))return!1}for(let[t,s]of e.pools){let i=n.pools.get(t);if(i!==s&&(!i||i.devices.length!==s.devices.length||i.nodes?.length!==s.nodes?.length))return!1}return!0}function H(){let n=getComputedStyle(document.documentElement),e={};for(let t of[...M,"text","faint","box","edge","back","accent","lit"])e[t]=n.getPropertyValue("--"+t).trim();return e}function se(n,e,t,s,i,a,r,l){let c=Math.min(a,r)<7;if(n.fillStyle=n.strokeStyle=e[t],n.lineWidth=Math.max(1,Math.min(2,a/10)),l){n.globalAlpha*=.22,t!=="free"&&n.fillRect(s,i,a,r),n.globalAlpha/=.22,n.strokeRect(s+.5,i+.5,a-1,r-1);return}if(c&&t!=="free"){n.fillRect(s,i,a,r);return}let d=(...m)=>{n.beginPath(),n.moveTo(m[0],m[1]);for(let u=2;u<m.length;u+=2)n.lineTo(m[u],m[u+1])},p=n.lineWidth/2;switch(t){case"used":n.fillRect(s,i,a,r);return;case"shared":d(s,i,s,i+r,s+a,i+r),n.closePath(),n.fill();break;case"blocked":d(s,i,s+a,i+r),n.stroke(),d(s+a,i,s,i+r),n.stroke();break;case"tainted":d(s,i+r*.45,s+a*.45,i),n.stroke(),d(s,i+r,s+a,i),n.stroke(),d(s+a*.55,i+r,s+a,i+r*.55),n.stroke();break;case"unusable":n.fillRect(s+a*.44,i+r*.18,a*.12,r*.38),n.fillRect(s+a*.44,i+r*.68,a*.12,r*.14);break;case"unreached":n.setLineDash([3,3]);break}n.strokeRect(s+p,i+p,a-2*p,r-2*p),n.setLineDash([])}var N={tab:"map",by:"namespace",group:"kind",find:"",select:""};function ie(){let n=new URLSearchParams(location.hash.slice(1)),e={...N};for(let t of Object.keys(N))e[t]=n.get(t)??N[t];return["map","usage","whatif"].includes(e.tab)||(e.tab=N.tab),e}function ae(n){let e=new URLSearchParams;for(let s of Object.keys(N))n[s]!==N[s]&&e.set(s,n[s]);let t=e.toString();history.replaceState(null,"",location.protocol==="file:"?"#"+t:"/"+(t?"#"+t:""))}var be=12,q=class{constructor(e,t,s){this.map=e;this.enter=t;this.moved=s;this.root=o("div",{role:"tree",tabindex:0,id:"tree",class:"tree","aria-label":"Cluster map",keydown:i=>this.key(i),focus:()=>this.update(),blur:()=>this.moved("")})}map;enter;moved;root;at={group:0,box:-1,cell:-1};get groups(){return this.map.layout.groups}get world(){return this.map.world}devices(e){return e.pools.flatMap(t=>{let s=this.world.pools.get(t);return s?s.devices.map(i=>[s,i]):[]})}go(e){this.groups.forEach((t,s)=>t.boxes.forEach((i,a)=>{if(i.key===e)this.at={group:s,box:a,cell:-1};else if(e.startsWith("device/")&&i.pools.some(r=>e.startsWith("device/"+r+"/"))){let r=this.devices(i).findIndex(([l,c])=>"device/"+W(l,c)===e);r>=0&&(this.at={group:s,box:a,cell:r})}})),this.update()}key(e){let t=this.at,s=this.groups[t.group],i=s?.boxes[t.box];if(!s)return;let a=t.cell>=0?this.devices(i).length:t.box>=0?s.boxes.length:this.groups.length,r=c=>{let d=Math.max(0,Math.min(a-1,c));t.cell>=0?t.cell=d:t.box>=0?t.box=d:t.group=d},l=t.cell>=0?t.cell:t.box>=0?t.box:t.group;switch(e.key){case"ArrowDown":r(l+1);break;case"ArrowUp":r(l-1);break;case"PageDown":r(l+10);break;case"PageUp":r(l-10);break;case"Home":r(0);break;case"End":r(a-1);break;case"ArrowRight":t.box<0?t.box=s.boxes.length?0:-1:t.cell<0&&this.devices(i).length&&(t.cell=0);break;case"ArrowLeft":t.cell>=0?t.cell=-1:t.box=-1;break;case"Enter":case" ":{let c=this.focused();c&&this.enter(c);break}case"+":case"=":this.map.zoom(1.3,this.map.canvas.clientWidth/2,this.map.canvas.clientHeight/2);break;case"-":this.map.zoom(1/1.3,this.map.canvas.clientWidth/2,this.map.canvas.clientHeight/2);break;case"0":this.map.fit();break;default:return}e.preventDefault(),this.update()}focused(){let e=this.groups[this.at.group]?.boxes[this.at.box];if(!e)return"";let t=this.devices(e)[this.at.cell];return t?"device/"+W(...t):e.key}update(){let e=this.at;e.group=Math.min(e.group,this.groups.length-1);let t=this.groups[e.group];if(!t){v(this.root,o("div",{role:"treeitem",id:"tree-0"},"There are no nodes."));return}e.box=Math.min(e.box,t.boxes.length-1);let s=[],i=(a,r,l,c,d,p)=>{for(let m=Math.max(0,(d<0?0:d)-be);m<Math.min(r,(d<0?0:d)+be+1);m++){let u=l<3&&m===d&&(l===1?e.box>=0:e.cell>=0);if(s.push(o("div",{role:"treeitem",id:`tree-${l}-${m}`,"aria-level":l,"aria-setsize":r,"aria-posinset":m+1,"aria-expanded":p?String(u):void 0,"aria-selected":String(m===a)},c(m))),m===d&&l===1&&e.box>=0&&i(e.cell<0?e.box:-1,t.boxes.length,2,f=>this.nodeText(t.boxes[f]),e.box,!0),m===d&&l===2&&e.cell>=0){let f=this.devices(t.boxes[e.box]);e.cell=Math.min(e.cell,f.length-1),i(e.cell,f.length,3,g=>this.deviceText(f[g][1]),e.cell,!1)}}};if(i(e.box<0?e.group:-1,this.groups.length,1,a=>`${this.groups[a].title}, ${x(this.groups[a].boxes.length,this.groups[a].lane?"pool":"node")}`,e.group,!0),v(this.root,s),this.root.setAttribute("aria-activedescendant",e.cell>=0?`tree-3-${e.cell}`:e.box>=0?`tree-2-${e.box}`:`tree-1-${e.group}`),document.activeElement===this.root){let a=t.boxes[e.box];this.moved(this.focused()),a&&this.map.reveal(a,e.cell>=0)}}nodeText(e){let t=e.node!==void 0?this.world.nodes.get(e.node):void 0,s=new Map;for(let[,a]of this.devices(e))s.set(k[a.state].name,(s.get(k[a.state].name)??0)+1);let i=[...s].map(([a,r])=>`${r} ${a}`).join(", ")||"no devices";return`${e.node!==void 0?"Node":"Pool"} ${e.title}${t?.cordoned?", cordoned":""}: ${i}`}deviceText(e){return`Device ${e.name}, ${this.world.shapes[e.shape].product}: ${k[e.state].name}`+(e.held?.length?`, by ${[...new Set(e.held.map(t=>t.claim))].slice(0,3).join(", ")}`:"")+(e.taints?.length?`, taint ${e.taints.join(", ")}`:"")}};var ne={namespace:"namespace",workload:"workload",class:"device class",driver:"driver",node:"node"},oe=500,I=class{constructor(e,t,s,i){this.choose=e;this.ask=t;this.select=s;this.only=i;v(this.root,o("p",{class:"actions"},o("label",{for:"by"},"Count by"),this.by),o("p",{class:"help"},"A stranded device is held by nobody, and no claim could have it now: because of a taint, counters that siblings have used up, a cordoned node and the like. A device that several share counts in each of their rows."),o("ul",{class:"legend","aria-label":"Signs"},["held","free","stranded"].map(a=>o("li",{},o("span",{class:"sample "+a})," "+a))),this.body)}choose;ask;select;only;root=o("section",{class:"usage","aria-label":"Usage",tabindex:0});by=o("select",{id:"by",change:()=>this.choose(this.by.value)});body=o("div",{"aria-live":"polite"});asked="";show(e,t,s){if(this.options(e,t),this.asked===t+" "+s)return;let i=this.asked=t+" "+s;this.ask(t).then(a=>{this.asked===i&&this.report(a)},a=>{this.asked===i&&(this.asked="",v(this.body,o("p",{class:"bad"},a.message)))})}options(e,t){let s=this.only;if(!s){let i=new Set(e.shapes.flatMap(a=>Object.keys(a.attributes??{})));s=[...Object.keys(ne),...[...i].sort().map(a=>"attribute="+a)]}s.includes(t)||(s=[...s,t]),[...this.by.options].map(i=>i.value).join(`
`)!==s.join(`
`)&&v(this.by,s.map(i=>o("option",{value:i},ne[i]??i.replace("attribute=","attribute ")))),this.by.value=t}report(e){let{by:t,total:s}=e,i=Math.max(1,...e.items.map(d=>d.devices)),a=ne[t]??t.replace("attribute=",""),r=e.items.slice(0,oe),l=(d,p,m)=>o("tr",{},o("th",{scope:"row"},d,Ie(p,m),p.stranded?o("div",{class:"faint"},"stranded by ",Object.entries(p.causes??{}).map(([u,f])=>`${u} (${f.toLocaleString("en")})`).join(", ")):null,p.shares?o("div",{class:"faint"},`${p.shares.toLocaleString("en")} of the held with shares left`):null),[p.devices,p.held,p.free,p.stranded].map(u=>o("td",{},u.toLocaleString("en")))),c=d=>d===""?o("span",{class:"faint"},t==="namespace"||t==="workload"?"nobody":"none"):t==="node"&&!d.startsWith("(")?o("button",{type:"button",class:"link",click:()=>this.select("node/"+d)},h(d)):h(d);v(this.body,o("table",{},o("thead",{},o("tr",{},[a,"Devices","Held","Free","Stranded"].map(d=>o("th",{scope:"col"},d)))),o("tbody",{},l("All",s,s.devices),r.map(d=>l(c(d.name),d,i)))),e.items.length>oe?o("p",{},`and ${e.items.length-oe} more: dray usage --by ${t} has them all`):null)}};function Ie(n,e){let t=["held","free","stranded"].filter(s=>n[s]>0).map(s=>{let i=o("span",{class:s});return i.style.width=`${100*n[s]/Math.max(1,e)}%`,i});return o("div",{class:"bar","aria-hidden":"true"},t)}var E=n=>`wait/${n.kind}/${n.namespace}/${n.name}`;function Ge(n,e){let t=new Map;for(let s of n.waiting){if(e&&!`${s.namespace}/${s.name} ${s.group??""} ${s.reason??""}`.toLowerCase().includes(e))continue;let i=s.group?"group "+s.group:s.answer>=0?"answer "+s.answer:E(s),a=t.get(i)??{title:s.group?`Pod group ${s.group}`:`${s.namespace}/${s.name}`,members:[]};a.members.push(s),t.set(i,a)}return[...t.values()].sort((s,i)=>Number(s.members.every(a=>a.answer<0))-Number(i.members.every(a=>a.answer<0)))}var G=300;function we(n,e,t,s,i){let a=Ge(e,s),r=e.waiting.filter(c=>c.answer>=0).length,l=c=>o("button",{type:"button",class:"wait","aria-pressed":String(E(c)===t),click:()=>i(E(c))},o("strong",{},c.kind==="Pod"?null:"claim ",h(`${c.namespace}/${c.name}`)),o("span",{class:c.answer>=0?"reason":"reason good"},c.answer>=0?h(c.reason??""):["can be placed on ",h(c.node??"")]));v(n,o("h2",{},"What waits"),o("p",{class:"faint"},e.waiting.length===0?"Nothing is pending that asks for devices.":`${e.waiting.length===1?"1 pod or claim":e.waiting.length+" pods and claims"}: ${r} without a place, ${e.waiting.length-r} can be placed`),o("ul",{class:"plain"},a.slice(0,G).map(c=>{let[d,...p]=c.members;if(p.length===0)return o("li",{},l(d));let m=c.title.startsWith("Pod group");return o("li",{},m?o("h3",{},h(c.title),`: ${x(c.members.length,"pod")}`):null,l(d),o("details",{open:p.some(u=>E(u)===t)},o("summary",{},`${x(p.length,"more pod")}${m?" of the group":", for the same reasons"}`),p.slice(0,G).map(l)))})),a.length>G?o("p",{},`and ${a.length-G} more`):null)}var ye=`# One H100 is best. Two A100s or four L4s will do. The driver is told which it is by
# the configuration that comes with the chosen alternative.
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: serving-gpu, namespace: llm}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        firstAvailable:
        - {name: best, deviceClassName: h100}
        - {name: good, deviceClassName: a100, count: 2}
        - {name: enough, deviceClassName: l4, count: 4}
      config:
      - requests: [gpu/good, gpu/enough]
        opaque:
          driver: gpu.example.com
          parameters: {apiVersion: gpu.example.com/v1, kind: GpuConfig, tensorParallel: true}
---
apiVersion: v1
kind: Pod
metadata: {name: serve-0, namespace: llm}
spec:
  containers:
  - {name: serve, image: registry.example.com/serve:1, resources: {claims: [{name: gpu}]}}
  resourceClaims:
  - {name: gpu, resourceClaimTemplateName: serving-gpu}
---
apiVersion: v1
kind: Pod
metadata: {name: serve-1, namespace: llm}
spec:
  containers:
  - {name: serve, image: registry.example.com/serve:1, resources: {claims: [{name: gpu}]}}
  resourceClaims:
  - {name: gpu, resourceClaimTemplateName: serving-gpu}
---
apiVersion: v1
kind: Pod
metadata: {name: serve-2, namespace: llm}
spec:
  containers:
  - {name: serve, image: registry.example.com/serve:1, resources: {claims: [{name: gpu}]}}
  resourceClaims:
  - {name: gpu, resourceClaimTemplateName: serving-gpu}
---
apiVersion: v1
kind: Pod
metadata: {name: serve-3, namespace: llm}
spec:
  containers:
  - {name: serve, image: registry.example.com/serve:1, resources: {claims: [{name: gpu}]}}
  resourceClaims:
  - {name: gpu, resourceClaimTemplateName: serving-gpu}
---
apiVersion: v1
kind: Pod
metadata: {name: serve-4, namespace: llm}
spec:
  containers:
  - {name: serve, image: registry.example.com/serve:1, resources: {claims: [{name: gpu}]}}
  resourceClaims:
  - {name: gpu, resourceClaimTemplateName: serving-gpu}
`;var xe=`# Two pods that start together or not at all. Each would rather have a whole GPU than a half.
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: trainers}
spec:
  schedulingPolicy:
    gang: {minCount: 2}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        firstAvailable:
        - name: whole
          deviceClassName: gpu
          selectors: [{cel: {expression: 'device.attributes["gpu.example.com"].profile == "whole"'}}]
        - name: half
          deviceClassName: gpu
          selectors: [{cel: {expression: 'device.attributes["gpu.example.com"].profile == "half"'}}]
---
apiVersion: v1
kind: Pod
metadata: {name: trainer-0}
spec:
  schedulingGroup: {podGroupName: trainers}
  containers:
  - {name: main, image: trainer, resources: {claims: [{name: gpu}]}}
  resourceClaims:
  - {name: gpu, resourceClaimTemplateName: gpu}
---
apiVersion: v1
kind: Pod
metadata: {name: trainer-1}
spec:
  schedulingGroup: {podGroupName: trainers}
  containers:
  - {name: main, image: trainer, resources: {claims: [{name: gpu}]}}
  resourceClaims:
  - {name: gpu, resourceClaimTemplateName: gpu}
`;var ke=`# Each replica wants a GPU and an RDMA NIC behind the same PCIe root.
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu-with-nic, namespace: train}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly: {deviceClassName: gpu.example.com}
      - name: nic
        exactly: {deviceClassName: rdma-nic}
      constraints:
      - requests: [gpu, nic]
        matchAttribute: resource.kubernetes.io/pcieRoot
---
apiVersion: v1
kind: Pod
metadata: {name: rank-0, namespace: train}
spec:
  containers:
  - name: worker
    image: registry.example.com/trainer:1
    resources:
      claims: [{name: accelerator}]
  resourceClaims:
  - name: accelerator
    resourceClaimTemplateName: gpu-with-nic
---
apiVersion: v1
kind: Pod
metadata: {name: rank-1, namespace: train}
spec:
  containers:
  - name: worker
    image: registry.example.com/trainer:1
    resources:
      claims: [{name: accelerator}]
  resourceClaims:
  - name: accelerator
    resourceClaimTemplateName: gpu-with-nic
---
apiVersion: v1
kind: Pod
metadata: {name: rank-2, namespace: train}
spec:
  containers:
  - name: worker
    image: registry.example.com/trainer:1
    resources:
      claims: [{name: accelerator}]
  resourceClaims:
  - name: accelerator
    resourceClaimTemplateName: gpu-with-nic
---
apiVersion: v1
kind: Pod
metadata: {name: rank-3, namespace: train}
spec:
  containers:
  - name: worker
    image: registry.example.com/trainer:1
    resources:
      claims: [{name: accelerator}]
  resourceClaims:
  - name: accelerator
    resourceClaimTemplateName: gpu-with-nic
`;var Ce=`# Claims by themselves: no pod uses them yet. They are allocated in this order.
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: inference-a, namespace: default}
spec:
  devices:
    requests:
    - name: partition
      exactly:
        deviceClassName: mig.example.com
        count: 1
        selectors:
        - cel: {expression: 'device.attributes["gpu.example.com"].profile == "3g.40gb"'}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: inference-b, namespace: default}
spec:
  devices:
    requests:
    - name: partition
      exactly:
        deviceClassName: mig.example.com
        count: 1
        selectors:
        - cel: {expression: 'device.attributes["gpu.example.com"].profile == "3g.40gb"'}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: notebooks, namespace: default}
spec:
  devices:
    requests:
    - name: partition
      exactly:
        deviceClassName: mig.example.com
        count: 4
        selectors:
        - cel: {expression: 'device.attributes["gpu.example.com"].profile == "1g.10gb"'}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: batch, namespace: default}
spec:
  devices:
    requests:
    - name: partition
      exactly:
        deviceClassName: mig.example.com
        count: 1
        selectors:
        - cel: {expression: 'device.attributes["gpu.example.com"].profile == "7g.80gb"'}
`;var Me=`apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: video-nic, namespace: default}
spec:
  devices:
    requests:
    - name: nic
      exactly:
        deviceClassName: nic.example.com
        capacity: {requests: {bandwidth: 40G}}
---
apiVersion: v1
kind: Pod
metadata: {name: video, namespace: default}
spec:
  containers:
  - {name: video, image: registry.example.com/video:1, resources: {claims: [{name: nic}]}}
  resourceClaims:
  - {name: nic, resourceClaimName: video-nic}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: backup-nic, namespace: default}
spec:
  devices:
    requests:
    - name: nic
      exactly:
        deviceClassName: nic.example.com
        capacity: {requests: {bandwidth: 50G}}
---
apiVersion: v1
kind: Pod
metadata: {name: backup, namespace: default}
spec:
  containers:
  - {name: backup, image: registry.example.com/backup:1, resources: {claims: [{name: nic}]}}
  resourceClaims:
  - {name: nic, resourceClaimName: backup-nic}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: logs-nic, namespace: default}
spec:
  devices:
    requests:
    - name: nic
      exactly:
        deviceClassName: nic.example.com
        capacity: {requests: {bandwidth: 1500M}}
---
apiVersion: v1
kind: Pod
metadata: {name: logs, namespace: default}
spec:
  containers:
  - {name: logs, image: registry.example.com/logs:1, resources: {claims: [{name: nic}]}}
  resourceClaims:
  - {name: nic, resourceClaimName: logs-nic}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: metrics-nic, namespace: default}
spec:
  devices:
    requests:
    - name: nic
      exactly:
        deviceClassName: nic.example.com
---
apiVersion: v1
kind: Pod
metadata: {name: metrics, namespace: default}
spec:
  containers:
  - {name: metrics, image: registry.example.com/metrics:1, resources: {claims: [{name: nic}]}}
  resourceClaims:
  - {name: nic, resourceClaimName: metrics-nic}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: replica-nic, namespace: default}
spec:
  devices:
    requests:
    - name: nic
      exactly:
        deviceClassName: nic.example.com
        capacity: {requests: {bandwidth: 90G}}
---
apiVersion: v1
kind: Pod
metadata: {name: replica, namespace: default}
spec:
  containers:
  - {name: replica, image: registry.example.com/replica:1, resources: {claims: [{name: nic}]}}
  resourceClaims:
  - {name: nic, resourceClaimName: replica-nic}
`;var We=`# A pod that takes any GPU, and one that wants a large one.
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: large-gpu}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly:
          deviceClassName: gpu.example.com
          selectors:
          - cel:
              expression: device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("60Gi"))
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: any-gpu}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly:
          deviceClassName: gpu.example.com
---
apiVersion: v1
kind: Pod
metadata: {name: notebook}
spec:
  containers:
  - name: jupyter
    image: registry.example.com/jupyter:1
    resources:
      claims: [{name: gpu}]
  resourceClaims:
  - name: gpu
    resourceClaimTemplateName: any-gpu
---
apiVersion: v1
kind: Pod
metadata: {name: finetune}
spec:
  containers:
  - name: finetune
    image: registry.example.com/finetune:1
    resources:
      claims: [{name: gpu}]
  resourceClaims:
  - name: gpu
    resourceClaimTemplateName: large-gpu
`;var Se=`# Two pods share one claim: the second may run on any node that reaches its devices. A
# third wants an accelerator and a license, and two in another zone.
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: shared-accelerator, namespace: sim}
spec:
  devices:
    requests:
    - name: accelerator
      exactly: {deviceClassName: accelerator}
---
apiVersion: v1
kind: Pod
metadata: {name: coupled-0, namespace: sim}
spec:
  containers:
  - {name: solver, image: registry.example.com/solver:1, resources: {claims: [{name: accelerator}]}}
  resourceClaims:
  - {name: accelerator, resourceClaimName: shared-accelerator}
---
apiVersion: v1
kind: Pod
metadata: {name: coupled-1, namespace: sim}
spec:
  nodeSelector: {kubernetes.io/hostname: node-a2}
  containers:
  - {name: solver, image: registry.example.com/solver:1, resources: {claims: [{name: accelerator}]}}
  resourceClaims:
  - {name: accelerator, resourceClaimName: shared-accelerator}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: licensed-accelerator, namespace: sim}
spec:
  spec:
    devices:
      requests:
      - name: accelerator
        exactly: {deviceClassName: accelerator}
      - name: seat
        exactly: {deviceClassName: license}
---
apiVersion: v1
kind: Pod
metadata: {name: meshing, namespace: sim}
spec:
  containers:
  - {name: mesh, image: registry.example.com/mesh:1, resources: {claims: [{name: licensed}]}}
  resourceClaims:
  - {name: licensed, resourceClaimTemplateName: licensed-accelerator}
---
apiVersion: v1
kind: Pod
metadata: {name: pinned-to-zone-a, namespace: sim}
spec:
  nodeSelector: {topology.kubernetes.io/zone: zone-a}
  containers:
  - {name: solver, image: registry.example.com/solver:1, resources: {claims: [{name: licensed}]}}
  resourceClaims:
  - {name: licensed, resourceClaimTemplateName: licensed-accelerator}
`;var Ze={taint:"Taint devices",cordon:"Cordon a node",drain:"Drain a node",add:"Add nodes like one",remove:"Remove a pod",yaml:"Add pods or claims"},Ee={"a GPU, any or a large one":We,"a GPU and a NIC of one PCIe root":ke,"partitions of a GPU":Ce,"a share of a NIC's bandwidth":Me,"the best GPU, or a second or third choice":ye,"a claim that several pods share":Se,"pods that start together":xe},K=class{constructor(e,t,s){this.post=e;this.world=t;this.show=s;v(this.root,o("h2",{},"What if"),o("p",{class:"faint"},"Tried on a copy of what is shown. Nothing is written to the cluster."),o("form",{submit:i=>{i.preventDefault(),this.ask()}},o("label",{for:"ask-kind"},"Change"),this.kind,this.form,o("p",{class:"actions"},o("button",{type:"submit",class:"primary"},"Try"),y("Back to what is",()=>this.clear()))),this.answer),this.fields()}post;world;show;root=o("section",{class:"whatif","aria-label":"What if"});kind=o("select",{id:"ask-kind",change:()=>this.fields()},Object.entries(Ze).map(([e,t])=>o("option",{value:e},t)));form=o("div");answer=o("div",{role:"status"});inputs={};input(e,t,s="",i){let a="ask-"+e,r=o("input",{id:a,value:s,list:i?a+"-list":void 0,autocomplete:"off",spellcheck:"false"});return this.inputs[e]=r,[o("label",{for:a},t),r,i?o("datalist",{id:a+"-list"},i.slice(0,1e3).map(l=>o("option",{value:l}))):o("span")]}fields(){this.inputs={};let e=[...this.world().nodes.keys()];switch(this.kind.value){case"taint":v(this.form,this.input("taint","Taint, KEY[=VALUE]:EFFECT","example.com/broken:NoSchedule"),this.input("node","Node (empty for any)","",e),this.input("driver","Driver"),this.input("pool","Pool"),this.input("device","Device"));break;case"add":v(this.form,this.input("node","Node that they are like","",e),this.input("count","How many","1")),this.inputs.count.setAttribute("inputmode","numeric");break;case"remove":v(this.form,this.input("pod","Pod, NAMESPACE/NAME","",[...new Set([...this.world().claims.values()].flatMap(t=>(t.pods??[]).map(s=>`${t.namespace}/${s}`)))]));break;case"yaml":{let t=o("textarea",{id:"ask-yaml",rows:16,spellcheck:"false"});this.inputs.yaml=t;let s=o("select",{id:"ask-template",change:()=>{t.value=Ee[s.value]??""}},o("option",{value:""},"choose …"),Object.keys(Ee).map(i=>o("option",{},i)));v(this.form,o("label",{for:"ask-template"},"Begin with"),s,o("label",{for:"ask-yaml"},"Manifests (YAML)"),t);break}default:v(this.form,this.input("node","Node","",e))}}value=e=>this.inputs[e]?.value.trim()??"";change(){switch(this.kind.value){case"taint":return{taint:{taint:this.value("taint"),node:this.value("node"),driver:this.value("driver"),pool:this.value("pool"),device:this.value("device")}};case"add":return{add:{[this.value("node")]:Math.trunc(Number(this.value("count")))||0}};case"remove":return{remove:[this.value("pod")]};case"yaml":return{yaml:this.inputs.yaml.value};case"drain":return{drain:[this.value("node")]};default:return{cordon:[this.value("node")]}}}start(e,t){this.kind.value=e,this.fields();let s=(i,a)=>{this.inputs[i]&&(this.inputs[i].value=a)};if(t.startsWith("device/")){let[i,...a]=t.slice(7).split("/");s("driver",i),s("pool",a.slice(0,-1).join("/")),s("device",a.at(-1)??"")}else e==="remove"?s("pod",t):s("node",t.replace(/^node\//,""));this.kind.focus()}clear(){this.show(void 0),v(this.answer)}async ask(){v(this.answer,o("p",{class:"faint"},"Trying …"));try{let e=await this.post(this.change()),t=this.show(e);t&&this.report(e,t.before,t.after)}catch(e){this.show(void 0),v(this.answer,o("h3",{},"That is not possible"),o("ul",{class:"bad"},e.message.split(`
`).map(t=>o("li",{},h(t)))))}}report(e,t,s){let i=L(t),a=L(s),r=c=>c.waiting.filter(d=>d.answer>=0).length,l=(c,d,p)=>o("tr",{class:d===p?"":"differs"},o("th",{scope:"row"},c),o("td",{},String(d)),o("td",{},String(p)));v(this.answer,o("h3",{},"Before and after"),o("table",{},o("thead",{},o("tr",{},o("td"),o("th",{scope:"col"},"Before"),o("th",{scope:"col"},"After"))),o("tbody",{},l("nodes",t.nodes.size,s.nodes.size),M.filter(c=>i[c]||a[c]).map(c=>l(k[c].name,i[c],a[c])),l("waiting without a place",r(t),r(s)),l("waiting that can be placed",t.waiting.length-r(t),s.waiting.length-r(s)))),o("h3",{},"In a terminal"),e.commands.map(c=>o("pre",{tabindex:0},c)),e.manifests?o("details",{},o("summary",{},"with this on standard input"),o("pre",{tabindex:0},e.manifests)):null)}};var U=class{constructor(e,t){this.world=e;this.kept=t;this.usage=new I(i=>this.set({by:i}),i=>this.count(i),i=>{this.state.tab="map",this.select(i)},t&&Object.keys(t.usage)),this.build(),this.map=new V(this.canvas,e,this.state.group),this.map.viewport=this.viewport,this.tree=new q(this.map,i=>this.select(i),i=>this.focused(i)),this.maps.firstElementChild.append(this.tree.root),this.pointer(this.map,this.canvas),this.map.fit();let s=this.size();new ResizeObserver(()=>{!this.canvas.clientWidth||this.size()===s||(s=this.size(),this.map.resized(),this.beforeMap?.show(this.beforeMap.world,this.state.group,this.map.layout))}).observe(this.canvas),addEventListener("hashchange",()=>{this.state=ie(),this.update()}),this.update(),t||this.follow()}world;kept;state=ie();history=new z;past;outcome;viewport={x:0,y:0,scale:1};canvas=o("canvas",{"aria-hidden":"true"});before=o("canvas",{"aria-hidden":"true"});map;beforeMap;tree;status=o("p",{class:"status",role:"status"});notes=o("details",{class:"notes",hidden:!0});legend=o("ul",{class:"legend","aria-label":"States of devices"});waits=o("section",{class:"waits","aria-label":"What waits"});panel=o("section",{class:"panel","aria-label":"Details",hidden:!0});tip=o("div",{class:"tip",hidden:!0,"aria-hidden":"true"});maps=o("div",{class:"maps"});scrub=o("div",{class:"scrub",hidden:!0});group=o("select",{id:"group",change:()=>this.set({group:this.group.value})});find=o("input",{id:"find",type:"search",placeholder:"node, device, pod, claim",input:()=>this.set({find:this.find.value})});usage;whatIf;tabs=[];size(){return`${this.canvas.clientWidth} ${this.canvas.clientHeight}`}build(){let e=(i,a)=>y(a,()=>this.set({tab:i}),{"data-tab":i});this.tabs=[e("map","Map"),e("usage","Usage"),...this.kept?[]:[e("whatif","What if")]],this.kept||(this.whatIf=new K(i=>this.post(i),()=>this.world,i=>this.tried(i)));let t=o("input",{type:"range",id:"scrub",min:0,max:0,value:0,input:()=>this.scrubTo(Number(t.value))});v(this.scrub,o("label",{for:"scrub"},"Last 15 minutes"),t,o("output",{id:"scrub-time"},"now"),y("Now",()=>this.scrubTo(this.history.length)));let s=i=>()=>this.map.zoom(i,this.canvas.clientWidth/2,this.canvas.clientHeight/2);v(this.maps,o("figure",{class:"main"},this.canvas),o("div",{class:"zoom"},y("+",s(1.4),{"aria-label":"Zoom in"}),y("−",s(1/1.4),{"aria-label":"Zoom out"}),y("Fit",()=>this.map.fit(),{"aria-label":"Fit all"})),this.tip),v(document.getElementById("app"),o("header",{},o("h1",{},"Dray"),o("p",{class:"source"},h(this.world.source)),o("nav",{"aria-label":"Views"},this.tabs),o("div",{class:"tools"},o("label",{for:"group"},"Group by"),this.group,o("label",{for:"find"},"Find"),this.find),this.status),o("main",{},o("div",{class:"left"},this.waits,this.whatIf?.root),o("div",{class:"centre"},o("p",{class:"help for-map"},"Each box is a node, each cell a device. Scroll to zoom, drag to move, click for details; with the keyboard, focus the map and use the arrow keys."),this.legend,this.notes,this.maps,this.usage.root,this.scrub),this.panel))}set(e){Object.assign(this.state,e),ae(this.state),this.update()}get shown(){return this.outcome?.after??(this.past===void 0?this.world:this.history.at(this.past)?.world??this.world)}update(){ae(this.state);let e=this.shown,{state:t}=this;this.tabs.forEach(s=>s.setAttribute("aria-current",s.dataset.tab===t.tab?"page":"false")),this.waits.hidden=t.tab==="whatif",this.whatIf&&(this.whatIf.root.hidden=t.tab!=="whatif"),this.showUsage(e),this.options(e),this.find.value!==t.find&&(this.find.value=t.find),this.map.show(e,t.group),this.beforeMap?.show(this.outcome?.before??this.world,t.group,this.map.layout),this.showLegend(e),this.notes.hidden=e.notes.length===0,e.notes.length&&v(this.notes,o("summary",{},x(e.notes.length,"note")),o("ul",{},e.notes.map(s=>o("li",{},h(s))))),we(this.waits,e,t.select,t.find.toLowerCase(),s=>this.select(s)),this.showDetails(e),this.mark(e),this.tree.update()}showUsage(e){let t=this.state.tab==="usage";this.usage.root.hidden=!t;for(let s of[this.maps,this.legend,document.querySelector(".for-map")])s.hidden=t;if(this.scrub.hidden=t||this.history.length===0,!!t){if(this.past!==void 0){this.scrubTo(this.history.length);return}this.usage.show(e,this.state.by,this.version(e))}}version(e){return this.outcome&&e===this.outcome.after?`whatif=${this.outcome.number}`:`revision=${e.revision}`}async count(e){if(this.kept){if(!Object.hasOwn(this.kept.usage,e))throw new Error("The file does not have this: dray usage --by "+e);return this.kept.usage[e]}let t=await fetch(`api/usage?${this.version(this.shown)}&by=${encodeURIComponent(e)}`);if(!t.ok)throw new Error((await t.text()).trim());return await t.json()}options(e){let t=new Map;for(let a of e.nodes.values())for(let[r,l]of Object.entries(a.labels??{}))t.has(r)||t.set(r,new Set),t.get(r).add(l);let i=["kind","pool",...[...t].filter(([,a])=>a.size>1&&a.size<=Math.max(2,e.nodes.size/2)).map(([a])=>a).sort().map(a=>"label:"+a)];this.state.group.startsWith("label:")&&!i.includes(this.state.group)&&i.push(this.state.group),[...this.group.options].map(a=>a.value).join(`
`)!==i.join(`
`)&&v(this.group,i.map(a=>o("option",{value:a},a==="kind"?"kind of node":a==="pool"?"pool":"label "+a.slice(6)))),this.group.value=this.state.group}showLegend(e){let t=L(e),s=M.reduce((a,r)=>a+t[r],0),i=H();v(this.legend,o("li",{},o("strong",{},x(e.nodes.size,"node")),", ",o("strong",{},x(s,"device"))),M.map(a=>{let r=o("canvas",{width:32,height:32,"aria-hidden":"true"}),l=r.getContext("2d");return l.scale(2,2),se(l,i,a,1,1,14,14,!1),o("li",{title:k[a].help,class:t[a]?"":"none"},r,` ${k[a].name} `,o("strong",{},t[a].toLocaleString("en")))}))}showDetails(e){let t=this.state.select,s=this.actions(e),i;if(t.startsWith("device/"))i=le(e,t.slice(7),s);else if(t.startsWith("node/"))i=ce(e,t.slice(5),s);else if(t.startsWith("pool/"))i=de(e,t.slice(5),s);else if(t.startsWith("wait/")){let a=e.waiting.find(r=>E(r)===t);i=a&&me(a,s)}t&&!i&&(i=[o("h2",{},"Not there"),o("p",{},h(t)," is not in what is shown.")]),this.panel.hidden=!i,i&&v(this.panel,y("×",()=>{this.set({select:""}),this.tree.root.focus()},{class:"close","aria-label":"Close details"}),i)}actions(e){return{select:t=>this.select(t),ask:this.whatIf&&((t,s)=>{this.set({tab:"whatif"}),this.whatIf.start(t,s)}),explain:t=>this.explain(e,t)}}async explain(e,t){if(this.kept){let i=this.kept.answers[t.answer];if(!i)throw new Error("The file does not have this explanation. "+(t.reason??""));return i}let s=await fetch(`api/explanation?${this.version(e)}&answer=${t.answer}`);if(!s.ok)throw new Error(`${t.reason??""} (${(await s.text()).trim()}: the whole explanation is that of now)`);return await s.json()}mark(e){let t=new Set,s=e.waiting.find(r=>E(r)===this.state.select);s?.node&&s.answer<0&&t.add("node/"+s.node);for(let r of s?.devices??[])t.add(`device/${C({driver:r.driver,name:r.pool})}/${r.device}`);for(let r of s?.nearest??[])t.add("node/"+r);if(this.state.select.startsWith("pool/"))for(let r of e.pools.get(this.state.select.slice(5))?.nodes??[])t.add("node/"+r);let i=new Set(this.outcome?[...O(this.outcome.before,this.outcome.after)].map(r=>"device/"+r):[]),a=this.state.find?this.matching(e,this.state.find.toLowerCase()):void 0;for(let r of[this.map,this.beforeMap])r&&(r.marks={...r.marks,selected:this.state.select,lit:t,changed:i,matches:a});this.map.draw(),this.beforeMap?.draw()}matching(e,t){let s=new Set,i=a=>a.toLowerCase().includes(t);for(let a of this.map.layout.boxes.values())(i(a.title)||a.pools.some(l=>e.pools.get(l)?.devices.some(d=>i(d.name)||i(e.shapes[d.shape].product)||d.held?.some(p=>i(p.claim)||e.claims.get(p.claim)?.pods?.some(i)))))&&s.add(a.key);return s}select(e){this.set({select:e});let t=this.shown,s=e.startsWith("device/")?Q(t,e.slice(7)):void 0,i=s?[...this.map.layout.boxes.values()].find(l=>l.pools.includes(C(s[0]))):this.map.layout.boxes.get(e);i&&(this.map.reveal(i,s!==void 0),this.tree.go(e));let a=t.waiting.find(l=>E(l)===e),r=a&&this.map.layout.boxes.get("node/"+(a.node&&a.answer<0?a.node:a.nearest?.[0]??""));r&&this.map.reveal(r,!1),e&&matchMedia("(max-width: 800px)").matches&&this.panel.scrollIntoView()}focused(e){this.map.marks.focused=e,this.map.draw()}pointer(e,t){let s=new Map,i=0,a=()=>{this.map.draw(),this.beforeMap?.draw()};t.addEventListener("pointerdown",l=>{t.setPointerCapture(l.pointerId),s.set(l.pointerId,{x:l.offsetX,y:l.offsetY}),i=0}),t.addEventListener("pointermove",l=>{let c=s.get(l.pointerId);if(!c){this.hover(e,l);return}let d=l.offsetX-c.x,p=l.offsetY-c.y;i+=Math.abs(d)+Math.abs(p);let m=[...s].find(([u])=>u!==l.pointerId)?.[1];m?e.zoom(Math.hypot(l.offsetX-m.x,l.offsetY-m.y)/Math.max(1,Math.hypot(c.x-m.x,c.y-m.y)),m.x,m.y):e.pan(d,p),s.set(l.pointerId,{x:l.offsetX,y:l.offsetY}),a()});let r=l=>{if(!s.delete(l.pointerId)||i>5||l.type!=="pointerup")return;let{box:c,pool:d,device:p}=e.hit(l.offsetX,l.offsetY);this.select(d&&p?"device/"+W(d,p):c?.key??"")};t.addEventListener("pointerup",r),t.addEventListener("pointercancel",r),t.addEventListener("pointerleave",()=>{this.tip.hidden=!0}),t.addEventListener("wheel",l=>{l.preventDefault(),e.zoom(Math.exp(-l.deltaY*(l.deltaMode?.05:.0018)),l.offsetX,l.offsetY),a()},{passive:!1})}hover(e,t){let{box:s,pool:i,device:a}=e.hit(t.offsetX,t.offsetY);if(this.tip.hidden=!s,!s)return;let r=e.world,l=[h(s.title)];if(i&&a){l.splice(0,1,o("strong",{},h(a.name)),` ${k[a.state].name}`,o("div",{},h(r.shapes[a.shape].product)," on ",h(s.title)));for(let d of(a.held??[]).slice(0,3))l.push(o("div",{},"held by ",h(r.claims.get(d.claim)?.pods?.slice(0,2).join(", ")||d.claim),r.claims.get(d.claim)?.since?` since ${r.claims.get(d.claim).since.slice(0,16).replace("T"," ")}`:""));a.blockedBy&&l.push(o("div",{},h(a.blockedBy))),a.taints?.length&&l.push(o("div",{},"taint ",h(a.taints.join(", "))))}else s.node!==void 0&&l.push(o("div",{},h(r.nodes.get(s.node)?.kind??"")));v(this.tip,l);let c=this.maps.getBoundingClientRect();this.tip.style.left=Math.max(0,Math.min(t.clientX-c.left+14,c.width-this.tip.offsetWidth-4))+"px",this.tip.style.top=Math.max(0,Math.min(t.clientY-c.top+14,c.height-this.tip.offsetHeight-4))+"px"}follow(){ue(()=>this.world.revision,{delta:e=>{let t=fe(this.world,e);t?this.next(t,JSON.stringify(e).length):this.whole()},whole:()=>{this.whole()},lost:(e,t)=>{this.status.classList.toggle("bad",e!==""),v(this.status,e||(t?"live":"as read once"))}})}async whole(){let e=await fetch("api/picture");if(!e.ok){v(this.status,(await e.text()).trim());return}let t=await e.text();this.next(A(JSON.parse(t)),t.length)}next(e,t){let s=this.world;this.world=e,this.history.add(s,e,t),this.past!==void 0&&(this.past=Math.min(this.past,this.history.length-1)),this.showScrub(),!(this.past!==void 0||this.outcome)&&(this.update(),this.map.flash(O(s,e)))}showScrub(){this.scrub.hidden=this.state.tab==="usage"||this.history.length===0;let e=this.scrub.querySelector("input"),t=this.past??this.history.length,s=this.history.at(t);e.max=String(this.history.length),e.value=String(t);let i=this.past===void 0||!s?"now":new Date(s.time).toLocaleTimeString();this.scrub.querySelector("output").textContent=i,e.setAttribute("aria-valuetext",i)}scrubTo(e){let t=this.shown;this.past=e>=this.history.length?void 0:e,this.outcome=void 0,this.showScrub(),this.update(),this.map.flash(O(t,this.shown))}async post(e){let t=await fetch("api/whatif",{method:"POST",headers:{"Content-Type":"application/json"},body:JSON.stringify(e)});if(t.status===422)throw new Error((await t.json()).errors.join(`
`));if(!t.ok)throw new Error((await t.text()).trim());return await t.json()}tried(e){this.past=void 0;let t=e&&(e.picture?A(e.picture):e.delta.from===this.world.revision?j(this.world,e.delta):void 0);if(e&&!t)throw new Error("The cluster has changed in the meantime: try again.");this.outcome=t&&{number:e.number,before:this.world,after:t};let s=this.maps.querySelector("figure.before");return t?s||(this.maps.prepend(o("figure",{class:"before"},o("figcaption",{},"Before"),this.before)),this.maps.querySelector("figure.main").prepend(o("figcaption",{},"After")),this.beforeMap=new V(this.before,this.world,this.state.group),this.beforeMap.viewport=this.viewport,this.pointer(this.beforeMap,this.before)):(s?.remove(),this.beforeMap=void 0,this.maps.querySelector("figcaption")?.remove()),this.update(),this.map.resized(),this.beforeMap?.show(this.world,this.state.group,this.map.layout),t&&{before:this.world,after:t}}};async function Qe(){let n=document.getElementById("kept");if(n){let t=JSON.parse(n.textContent??"");new U(A(t.picture),t);return}let e=await fetch("api/picture");if(!e.ok)throw new Error((await e.text()).trim());new U(A(await e.json()),void 0)}Qe().catch(n=>v(document.getElementById("app"),o("p",{class:"bad",role:"alert"},n.message)));
