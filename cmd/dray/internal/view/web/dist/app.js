function o(a,e={},...t){let s=document.createElement(a);for(let[i,n]of Object.entries(e))typeof n=="function"?s.addEventListener(i,n):n===!0?s.setAttribute(i,""):n!==!1&&n!==void 0&&s.setAttribute(i,String(n));return Q(s,t),s}function Q(a,e){for(let t of e)Array.isArray(t)?Q(a,t):typeof t=="string"?a.append(R(t)):t&&a.append(t)}function v(a,...e){a.replaceChildren(),Q(a,e)}function T(a,...e){let t=a.contains(document.activeElement)?Ve(a,document.activeElement):void 0,s=new Set([...a.querySelectorAll("details")].filter(n=>n.open).map(D)),i=a.scrollTop;v(a,...e);for(let n of a.querySelectorAll("details"))n.open||=s.has(D(n));a.scrollTop=i,t&&(B(a).filter(n=>D(n)===t.text)[t.among]??B(a)[t.at]??B(a).at(-1))?.focus({preventScroll:!0})}var B=a=>[...a.querySelectorAll("button, summary, select, input, textarea, [tabindex]")],D=a=>`${a.tagName} ${a.getAttribute("data-key")??a.getAttribute("aria-label")??(a.querySelector("summary")??a).textContent}`;function Ve(a,e){let t=B(a),s=D(e);return{text:s,among:t.filter(i=>D(i)===s).indexOf(e),at:t.indexOf(e)}}var je=/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;function R(a){return a.replace(je,e=>"\\u"+e.charCodeAt(0).toString(16).padStart(4,"0"))}var h=a=>o("bdi",{},a),y=(a,e,t={})=>o("button",{type:"button",click:e,...t},a),x=(a,e)=>`${a.toLocaleString("en")} ${e}${a===1?"":"s"}`;var E=["free","used","shared","blocked","tainted","unusable","unreached"],k={free:{name:"free",help:"can be allocated now"},used:{name:"held",help:"held by a claim"},shared:{name:"shared in part",help:"held by claims, and more shares may be had"},blocked:{name:"blocked",help:"free, but siblings have used up the counters that it draws on"},tainted:{name:"tainted",help:"free, but a taint keeps claims away that do not tolerate it"},unusable:{name:"unusable",help:"its pool cannot be used: slices are missing or contradict each other"},unreached:{name:"not reachable",help:"free, but no node reaches it"}},M=a=>a.driver+"/"+a.name;function V(a){return he({revision:a.revision,source:a.source,time:a.time,shapes:a.shapes,waiting:a.waiting,notes:a.notes??[],nodes:new Map(a.nodes.map(e=>[e.name,e])),pools:new Map(a.pools.map(e=>[M(e),e])),claims:new Map(Object.entries(a.claims)),own:new Map,lanes:[]})}function he(a){a.own=new Map,a.lanes=[];for(let e of a.pools.values()){let t=e.nodes?.length===1?e.nodes[0]:void 0;t===void 0?a.lanes.push(e):a.own.has(t)?a.own.get(t).push(e):a.own.set(t,[e])}return a}function ee(a,e){if(!e)return a;let t=new Map(a);for(let[s,i]of Object.entries(e))i===null?t.delete(s):t.set(s,i);return t}function z(a,e){return he({...a,revision:e.revision,time:e.time,nodes:ee(a.nodes,e.nodes),pools:ee(a.pools,e.pools),claims:ee(a.claims,e.claims),shapes:e.shapes?a.shapes.concat(e.shapes):a.shapes,waiting:e.waiting??a.waiting,notes:e.notes??a.notes})}var C=(a,e)=>M(a)+"/"+e.name;function q(a,e){let t=new Set;for(let[s,i]of e.pools){let n=a.pools.get(s);if(n===i)continue;let r=new Map(n?.devices.map(l=>[l.name,l]));for(let l of i.devices){let c=r.get(l.name);(!c||c.state!==l.state||JSON.stringify(c.held)!==JSON.stringify(l.held))&&t.add(C(i,l))}}return t}function j(a){let e=Object.fromEntries(E.map(t=>[t,0]));for(let t of a.pools.values())for(let s of t.devices)e[s.state]++;return e}var I=(a,e)=>o("h2",{tabindex:-1},a,h(e)),ne=a=>o("dl",{},a.filter(([,e])=>e!==void 0&&e!=="").map(([e,t])=>[o("dt",{},e),o("dd",{},...Array.isArray(t)?t:[typeof t=="string"?h(t):t])])),te=a=>o("div",{class:"bars"},a.map(e=>o("div",{},o("span",{},h(e.name),` ${e.left} of ${e.total} left`),o("meter",{min:0,max:1,value:1-e.part,"aria-label":`${e.name}: in use`})))),se=a=>Object.entries(a??{}).sort(([e],[t])=>e<t?-1:1),ie=a=>{let e=se(a);return e.length?o("ul",{class:"plain"},e.map(([t,s])=>o("li",{},h(t)," = ",h(s)))):void 0};function G(a,e){let t=e.lastIndexOf("/"),s=a.pools.get(e.slice(0,t)),i=s?.devices.find(n=>n.name===e.slice(t+1));return s&&i?[s,i]:void 0}function fe(a,e,t){let s=G(a,e);if(!s)return;let[i,n]=s,r=a.shapes[n.shape],l=(n.held??[]).map(d=>{let p=a.claims.get(d.claim);return o("li",{},"claim ",h(d.claim),", request ",h(d.request),p?.pods?.length?o("div",{},"pod ",h(p.pods.slice(0,8).join(", ")),p.pods.length>8?` and ${p.pods.length-8} more`:""):null,o("div",{class:"faint"},p?.since?`since ${p.since.replace("T"," ").replace("Z"," UTC")}`:"since when is not known"))}),c=(n.sets??[]).map(d=>i.sets[d]);return[I("Device ",n.name),ne([["State",`${k[n.state].name}: ${k[n.state].help}`],["Product",r.product],["Driver",i.driver],["Pool",i.name],["Node",i.nodes?.length===1?W(i.nodes[0],"node/"+i.nodes[0],t):`${x(i.nodes?.length??0,"node")} ${(i.nodes??[]).slice(0,5).join(", ")}`],["Why",i.problem??n.blockedBy],["Held by",l.length?o("ul",{class:"plain"},l):void 0],["Taints",n.taints?.join(", ")],["Capacity",n.capacity?.length?te(n.capacity):ie(r.capacity)],["Counters",c.length?o("div",{},c.map(d=>[o("div",{},h(d.name)),te(d.counters)])):void 0],["Attributes",ie({...r.attributes,...n.own})]]),t.ask?o("p",{class:"actions"},y("What if it is tainted?",()=>t.ask("taint","device/"+e))):o("p")]}function ge(a,e,t,s,i){if(!s||!i)return[h(e),t!==void 0?o("div",{},h(a.nodes.get(t)?.kind??"")):null];let n=a.shapes[i.shape],r=4,l=i.capacity?.length?i.capacity.map(d=>[d.name,`${d.left} of ${d.total} left`]):se(n.capacity),c=se({...n.attributes,...i.own});return[o("strong",{},h(i.name)),` ${k[i.state].name}`,o("div",{},h(n.product)," on ",h(e)),(i.held??[]).slice(0,3).map(d=>{let p=a.claims.get(d.claim);return o("div",{},"held by ",h(p?.pods?.slice(0,2).join(", ")||d.claim),p?.since?` since ${p.since.slice(0,16).replace("T"," ")}`:"")}),i.blockedBy?o("div",{},h(i.blockedBy)):null,s.problem?o("div",{},h(s.problem)):null,i.taints?.length?o("div",{},"taint ",h(i.taints.join(", "))):null,l.slice(0,r).map(([d,p])=>o("div",{class:"faint"},h(d)," ",h(p))),c.slice(0,r).map(([d,p])=>o("div",{class:"faint"},h(d)," = ",h(p.slice(0,80)))),c.length>r?o("div",{class:"faint"},`and ${x(c.length-r,"more attribute")}`):null]}var W=(a,e,t)=>y(h(a),()=>t.select(e),{class:"link"});function ve(a,e,t){let s=a.nodes.get(e);if(!s)return;let i=a.own.get(e)??[],n=a.lanes.filter(r=>r.nodes?.includes(e));return[I("Node ",s.name),ne([["Kind",s.kind],["Cordoned",s.cordoned?"yes: no pod is placed on it":void 0],["Taints",s.taints?.join(", ")],["Pools of several nodes",n.length?n.flatMap(r=>[W(r.name,"pool/"+M(r),t)," "]):void 0]]),t.ask?o("p",{class:"actions"},"What if ",y("it is cordoned",()=>t.ask("cordon",e)),y("it is drained",()=>t.ask("drain",e)),y("its devices are tainted",()=>t.ask("taint","node/"+e)),y("there are more like it",()=>t.ask("add",e))):o("p"),...i.flatMap(r=>we(a,r,t)),o("details",{},o("summary",{},"Labels"),ie(s.labels)??o("p",{},"none"))]}function be(a,e,t){let s=a.pools.get(e);if(!s)return;let i=s.nodes??[];return[I("Pool ",s.name),ne([["Driver",s.driver],["Reached by",i.length?i.slice(0,20).flatMap(n=>[W(n,"node/"+n,t)," "]).concat(i.length>20?[`and ${i.length-20} more`]:[]):"no node"]]),...we(a,s,t)]}function we(a,e,t){return[o("h3",{},h(M(e))),e.problem?o("p",{class:"bad"},"Nothing can be allocated from it: ",h(e.problem)):o("p",{class:"faint"},x(e.devices.length,"device")),...(e.sets??[]).slice(0,16).map(i=>o("div",{},h(i.name),te(i.counters))),o("table",{},o("thead",{},o("tr",{},o("th",{},"Device"),o("th",{},"State"),o("th",{},"Held by"))),o("tbody",{},e.devices.slice(0,200).map(i=>o("tr",{},o("td",{},W(i.name,"device/"+C(e,i),t)),o("td",{},k[i.state].name),o("td",{},h([...new Set((i.held??[]).map(n=>a.claims.get(n.claim)?.pods?.join(", ")||n.claim))].join(", "))))))),e.devices.length>200?o("p",{},`and ${e.devices.length-200} more`):o("p")]}function ye(a,e){let t=I(`${a.kind} `,`${a.namespace}/${a.name}`);if(a.node!==void 0&&a.answer<0)return[t,o("p",{},"It can be placed on ",W(a.node,"node/"+a.node,e),", with these devices, after what comes before it:"),o("ul",{},(a.devices??[]).map(n=>o("li",{},W(`${M({driver:n.driver,name:n.pool})}/${n.device}`,`device/${n.driver}/${n.pool}/${n.device}`,e))))];let s=e.explained(a),i=o("div",{},s?ue(s,a,e):o("p",{class:"faint"},"Asking why …"));return e.explain(a).then(n=>T(i,ue(n,a,e)),n=>T(i,o("p",{class:"bad"},n.message))),[t,a.group?o("p",{},"Pod group ",h(a.group)):o("p"),i,e.ask&&a.kind==="Pod"?o("p",{class:"actions"},y("What if it goes?",()=>e.ask("remove",`${a.namespace}/${a.name}`))):o("p")]}function ue(a,e,t){return[(i=>o("p",{},h(i)))(a.error??a.reason??e.reason??""),e.like?o("p",{class:"faint"},"Refused for the same reasons as ",h(`${a.subject.namespace}/${a.subject.name}`),", whose explanation this is."):o("p"),a.placedBefore>0?o("p",{class:"faint"},`Looked at after placing the ${x(a.placedBefore,"workload")} before it.`):o("p"),...(a.refusals??[]).map((i,n)=>o("section",{class:"refusal"},o("h3",{},x(i.count,"node"),n===0&&(a.refusals?.length??0)>1?", which come closest":""),o("p",{class:"nodes"},i.nodes.slice(0,12).map(r=>[W(r,"node/"+r,t)," "]),i.nodes.length>12?`and ${i.nodes.length-12} more`:""),i.causes?.length?o("ul",{},i.causes.map(xe)):o("p",{},h(i.summary)),i.uniform?null:o("p",{class:"faint"},"The figures are those of ",W(i.closest,"node/"+i.closest,t),"."),i.explanation?.nearestMiss?o("p",{},"Nearest miss: ",h(i.explanation.nearestMiss)):null)),...(a.notes??[]).map(i=>o("p",{},"Note: ",h(i))),a.notLookedAt?.length?o("p",{},"Not looked at: ",h(a.notLookedAt.join(", "))):o("p")]}var xe=a=>o("li",{},h(a.text),a.rejections?.length?o("ul",{},a.rejections.map(e=>o("li",{},h(e.text),(e.details??[]).map(t=>o("div",{class:"faint"},h(t)))))):null,(a.hints??[]).map(e=>o("div",{class:"faint"},h(e))),a.alternatives?.length?o("ul",{},a.alternatives.map(xe)):null);function ke(a,e){let t=500,s,i,n=()=>{i?.close(),i=new EventSource("api/events?revision="+a()),i.addEventListener("status",r=>{let l=JSON.parse(r.data);t=500,e.lost(l.lost&&"The cluster does not answer: "+l.lost,l.live)}),i.addEventListener("delta",r=>e.delta(JSON.parse(r.data))),i.addEventListener("whole",()=>e.whole()),i.addEventListener("error",()=>{i?.close(),e.lost("dray view does not answer: it may have ended",!0),setTimeout(n,t),t=Math.min(t*2,1e4)})};n(),document.addEventListener("visibilitychange",()=>{clearTimeout(s),document.hidden?s=setTimeout(()=>i?.close(),Oe):i?.readyState===EventSource.CLOSED&&n()})}var Oe=6e4,He=15*6e4,Be=4e6,K=class{steps=[];size=0;get length(){return this.steps.length}add(e,t,s){for(this.steps.push({time:Date.now(),before:e,after:t,size:s}),this.size+=s;this.steps.length>600||this.size>Be||this.steps.length&&this.steps[0].time<Date.now()-He;)this.size-=this.steps.shift().size}at(e){if(e===0&&this.steps.length)return{world:this.steps[0].before,time:this.steps[0].time};let t=this.steps[e-1];return t&&{world:t.after,time:t.time}}},Ce=(a,e)=>e.from===a.revision?z(a,e):void 0;var O=24,A=15,P=4,$=6,ze=18,ae=4;function qe(a){return a.map(e=>e.devices.length+":"+(e.sets??[]).map(t=>t.whole+"."+t.counters.length).join()+":"+e.devices.map(t=>t.sets?.join("+")??"").join()).join("|")}function Ie(a){let e={w:0,h:0,cells:[],bars:[],titles:[]},t=a.reduce((c,d)=>c+d.devices.length,0),s=Math.max(4*(O+P),Math.ceil(Math.sqrt(t)*1.5)*(O+P)),i=$,n=ze,r=0,l=(c,d)=>{i>$&&i+c>s+$&&(i=$,n+=r+P,r=0);let p={x:i,y:n,w:c,h:d};return i+=c+P,r=Math.max(r,d),e.w=Math.max(e.w,i),p};return a.forEach((c,d)=>{let p=new Set;(c.sets??[]).forEach((m,u)=>Ge(e,c,d,m,u,p,l)),c.devices.forEach((m,u)=>{p.has(u)||e.cells.push({...l(O,O),pool:d,device:u,frame:!1})})}),e.w=Math.max(e.w-P+$,4*(O+P)-P+2*$),e.h=n+r+$,e}function Ge(a,e,t,s,i,n,r){let l=e.devices.map((b,w)=>[b,w]).filter(([b,w])=>b.sets?.[0]===i&&!n.has(w)).map(([,b])=>b);if(l.length===0)return;l.forEach(b=>n.add(b));let c=l.filter(b=>b!==s.whole),d=Math.max(3,Math.ceil(Math.sqrt(c.length*1.6))),p=Math.ceil(c.length/d),m=10,u=d*(A+2)+8,f=m+p*(A+2)+s.counters.length*(ae+2)+8,g=r(u,f);s.whole>=0&&a.cells.push({...g,pool:t,device:s.whole,frame:!0}),a.titles.push({x:g.x+4,y:g.y+2,w:u-8,h:m,pool:t,set:i}),c.forEach((b,w)=>a.cells.push({x:g.x+5+w%d*(A+2),y:g.y+m+3+Math.floor(w/d)*(A+2),w:A,h:A,pool:t,device:b,frame:!1})),s.counters.forEach((b,w)=>a.bars.push({x:g.x+5,y:g.y+f-(s.counters.length-w)*(ae+2)-1,w:u-10,h:ae,pool:t,set:i,counter:w}))}var U=new Map;function Me(a){let e=qe(a),t=U.get(e);return t||(U.size>2e3&&U.clear(),t=Ie(a),U.set(e,t)),t}function Ke(a,e,t){if(t==="pool"){let s=a.lanes.filter(i=>i.nodes?.includes(e)).map(i=>i.name);return s.length>0?"pool "+s.join(", "):"only pools of their own"}if(t.startsWith("label:")){let s=t.slice(6);return s+"="+(a.nodes.get(e).labels?.[s]??"(none)")}return a.nodes.get(e).kind}function oe(a,e,t,s){let i={w:0,h:0,titleHeight:s,groups:[],boxes:new Map},n=new Map,r=e==="pool"?Ue(a):void 0;for(let f of a.nodes.values()){let g=r?r.get(f.name)??"only pools of their own":Ke(a,f.name,e),b=a.own.get(f.name)??[],w=Me(b),N={key:"node/"+f.name,title:f.name,node:f.name,pools:b.map(M),plan:w,x:0,y:0,w:w.w,h:w.h};n.has(g)||n.set(g,[]),n.get(g).push(N),i.boxes.set(N.key,N)}let l=[...n.keys()].sort((f,g)=>n.get(g).length-n.get(f).length||f.localeCompare(g,"en",{numeric:!0})),c=a.lanes.map(f=>{let g=Me([f]);return{key:"pool/"+M(f),title:f.name,pools:[M(f)],plan:g,x:0,y:0,w:g.w,h:g.h}});c.forEach(f=>i.boxes.set(f.key,f));let d=c.length>0?[{title:"Pools that several nodes reach, or none",boxes:c,lane:!0,x:0,y:0,w:0,h:0}]:[];for(let f of l){let g=n.get(f).sort((b,w)=>b.title.localeCompare(w.title,"en",{numeric:!0}));d.push({title:f,boxes:g,lane:!1,x:0,y:0,w:0,h:0})}let p=d.reduce((f,g)=>f+g.boxes.reduce((b,w)=>b+(w.w+8)*(w.h+8),0),0),m=Math.max(400,Math.sqrt(p*t),...d.map(f=>Math.max(...f.boxes.map(g=>g.w)))),u=0;for(let f of d)Ye(f,u+s,m),f.y=u,u+=s+f.h+16,i.w=Math.max(i.w,f.w);return i.groups=d,i.h=Math.max(1,u-16),i.w=Math.max(1,i.w),i}function Ue(a){let e=new Map;for(let t of a.lanes)for(let s of t.nodes??[])e.set(s,e.has(s)?e.get(s)+", "+t.name:"pool "+t.name);return e}function Ye(a,e,t){let s=0,i=e,n=0;for(let r of a.boxes)s>0&&s+r.w>t&&(s=0,i+=n+8,n=0),r.x=s,r.y=i,s+=r.w+8,n=Math.max(n,r.h),a.w=Math.max(a.w,s-8);a.h=i+n-e}var H=class{constructor(e,t,s){this.canvas=e;this.context=e.getContext("2d",{alpha:!1}),this.world=t,this.by=s,this.layout=this.arranged(t),this.colours=Y(),matchMedia("(prefers-color-scheme: dark)").addEventListener("change",()=>{this.colours=Y(),this.draw()})}canvas;layout;world;marks={selected:"",focused:"",lit:new Set,changed:new Set};viewport={x:0,y:0,scale:1};frames=0;bright=new Map;dim=new Map;ringed=[];stocks=new WeakMap;flashes=new Map;colours;context;planned=0;by="kind";arranged(e){let{clientWidth:t,clientHeight:s}=this.canvas,i=Math.max(.3,t/Math.max(1,s)),n=oe(e,this.by,i,24),r=Math.min(t/n.w,s/n.h);return r>0&&r<.9&&(n=oe(e,this.by,i,Math.min(21/r,n.h/Math.max(6,n.groups.length)))),n}show(e,t,s){let i=t!==this.by||s!==void 0||!Xe(this.world,e);this.world=e,this.by=t,i&&(this.layout=s??this.arranged(e)),this.draw()}fit(){let{clientWidth:e,clientHeight:t}=this.canvas,s=Math.min((e-24)/this.layout.w,(t-24)/this.layout.h,3);Object.assign(this.viewport,{scale:s,x:-(e/s-this.layout.w)/2,y:this.layout.h*s<t*.7?-12/s:-(t/s-this.layout.h)/2}),this.draw()}resized(){this.layout=this.arranged(this.world),this.fit()}zoom(e,t,s){let i=this.viewport,n=.5*Math.min(this.canvas.clientWidth/this.layout.w,this.canvas.clientHeight/this.layout.h),r=Math.min(8,Math.max(Math.min(n,1),i.scale*e));i.x+=t/i.scale-t/r,i.y+=s/i.scale-s/r,i.scale=r,this.draw()}pan(e,t){this.viewport.x-=e/this.viewport.scale,this.viewport.y-=t/this.viewport.scale,this.draw()}reveal(e,t){let s=this.viewport,{clientWidth:i,clientHeight:n}=this.canvas;t&&s.scale<.9&&(s.scale=1.4),e.x>s.x&&e.y>s.y&&e.x+e.w<s.x+i/s.scale&&e.y+e.h<s.y+n/s.scale||Object.assign(s,{x:e.x+e.w/2-i/s.scale/2,y:e.y+e.h/2-n/s.scale/2}),this.draw()}corner(e,t){let s=t===void 0?void 0:e.plan.cells.find(r=>{let l=this.world.pools.get(e.pools[r.pool]),c=l?.devices[r.device];return l&&c&&C(l,c)===t}),i=s?e.x+s.x+s.w:e.x+e.w,n=s?e.y+s.y+s.h:e.y+e.h;return{x:(i-this.viewport.x)*this.viewport.scale,y:(n-this.viewport.y)*this.viewport.scale}}flash(e){let t=performance.now()+1600;for(let s of e)this.flashes.set(s,t);this.draw()}hit(e,t){let s=this.viewport.x+e/this.viewport.scale,i=this.viewport.y+t/this.viewport.scale,n=(r,l=0,c=0)=>s>=r.x+l&&i>=r.y+c&&s<=r.x+l+r.w&&i<=r.y+c+r.h;for(let r of this.layout.groups)if(!(i<r.y||i>r.y+this.layout.titleHeight+r.h))for(let l of r.boxes){if(!n(l))continue;let c={box:l};if(24*this.viewport.scale<5)return c;for(let d of l.plan.cells){if(!n(d,l.x,l.y))continue;let p=this.world.pools.get(l.pools[d.pool]),m=p?.devices[d.device];m&&(c={box:l,pool:p,device:m})}return c}return{}}draw(){this.planned||(this.planned=requestAnimationFrame(()=>{this.planned=0,this.paint()}))}paint(){let{canvas:e,context:t,viewport:s,colours:i}=this,n=devicePixelRatio||1,r=e.clientWidth,l=e.clientHeight;(e.width!==Math.round(r*n)||e.height!==Math.round(l*n))&&(e.width=Math.round(r*n),e.height=Math.round(l*n)),t.setTransform(n,0,0,n,0,0),t.fillStyle=i.back,t.fillRect(0,0,r,l);let c=s.x+r/s.scale,d=s.y+l/s.scale,p=24*s.scale;for(let m of this.layout.groups)if(!(m.y>d||m.y+this.layout.titleHeight+m.h<s.y)){this.title(m.title,m.boxes.length,m.lane,(m.x-s.x)*s.scale,(m.y-s.y)*s.scale);for(let u of m.boxes)u.x>c||u.y>d||u.x+u.w<s.x||u.y+u.h<s.y||(p<5?this.farBox(u):this.nearBox(u,p))}this.flush(),this.ringed.forEach(m=>m()),this.ringed.length=0,this.glow(),this.frames++===0&&performance.mark("first-picture")}title(e,t,s,i,n){let r=this.layout.titleHeight*this.viewport.scale,l=Math.min(15,Math.max(8,r*.62)),c=this.context;r<9||(c.font=`600 ${l}px system-ui, sans-serif`,c.fillStyle=this.colours.text,c.textBaseline="middle",c.fillText(`${R(e).slice(0,120)}  ·  ${x(t,s?"pool":"node")}`,Math.max(i,4),n+r/2))}isDim(e){let{matches:t,lit:s}=this.marks;return t?!t.has(e.key):s.size>0&&!s.has(e.key)}farBox(e){let{viewport:t,colours:s}=this,i=this.isDim(e)?this.dim:this.bright,n=(e.x-t.x)*t.scale,r=(e.y-t.y)*t.scale,l=Math.max(1.5,e.w*t.scale),c=Math.max(1.5,e.h*t.scale),d=e.node!==void 0?this.world.nodes.get(e.node):void 0;if(e.node!==void 0&&!d)return;let p=(g,b,w,N)=>{let me=i.get(g);me?me.push(b,r,w,N):i.set(g,[b,r,w,N])},m=this.stock(e),u=n,f=0;for(let g of m)f+=g;f===0&&p(s.edge,n,l,c);for(let g=0;g<m.length;g++){if(!m[g])continue;let b=l*m[g]/f;p(E[g]==="free"?s.pale:s[E[g]],u,b,c),u+=b}d?.cordoned&&p(s.text,n,l,Math.max(1,c/8)),this.isMarked(e)&&this.ringed.push(()=>this.rings(e,n,r,l,c))}flush(){for(let[e,t]of[[this.bright,1],[this.dim,.25]]){this.context.globalAlpha=t;for(let[s,i]of e){this.context.fillStyle=s;for(let n=0;n<i.length;n+=4)this.context.fillRect(i[n],i[n+1],i[n+2],i[n+3])}e.clear()}this.context.globalAlpha=1}stock(e){let t=this.stocks.get(e);if(t?.world===this.world)return t.n;let s=E.map(()=>0);for(let i of e.pools){let n=this.world.pools.get(i);n&&Je(n).forEach((r,l)=>{s[l]+=r})}return this.stocks.set(e,{world:this.world,n:s}),s}nearBox(e,t){let{context:s,viewport:i,colours:n}=this,r=(e.x-i.x)*i.scale,l=(e.y-i.y)*i.scale,c=e.w*i.scale,d=e.h*i.scale,p=e.node!==void 0?this.world.nodes.get(e.node):void 0;if(s.globalAlpha=this.isDim(e)?.3:1,e.node!==void 0&&!p){s.strokeStyle=n.faint,s.setLineDash([4,4]),s.strokeRect(r,l,c,d),s.setLineDash([]),s.globalAlpha=1;return}if(s.fillStyle=n.box,s.fillRect(r,l,c,d),s.strokeStyle=n.edge,s.lineWidth=1,s.strokeRect(r+.5,l+.5,c-1,d-1),t>=12){let m=Math.min(13,12*i.scale);s.font=`${m}px system-ui, sans-serif`,s.textBaseline="middle",s.fillStyle=n.text,s.save(),s.beginPath(),s.rect(r,l,c-4,d),s.clip(),s.fillText((p?.cordoned?"⊘ ":"")+R(e.title).slice(0,60),r+6*i.scale,l+9.5*i.scale),s.restore()}for(let m of e.plan.cells){let u=this.world.pools.get(e.pools[m.pool])?.devices[m.device];u&&this.cell(u.state,r+m.x*i.scale,l+m.y*i.scale,m.w*i.scale,m.h*i.scale,m.frame,(u.taints?.length??0)>0)}t>=14&&this.details(e,r,l),s.globalAlpha=1,this.rings(e,r,l,c,d),this.deviceRings(e,r,l)}details(e,t,s){let{context:i,viewport:n,colours:r}=this,l=n.scale;for(let c of e.plan.bars){let d=this.world.pools.get(e.pools[c.pool])?.sets?.[c.set]?.counters[c.counter];d&&(i.fillStyle=r.edge,i.fillRect(t+c.x*l,s+c.y*l,c.w*l,c.h*l),i.fillStyle=r.used,i.fillRect(t+c.x*l,s+c.y*l,c.w*l*(1-d.part),c.h*l))}if(i.fillStyle=r.text,l>.8){i.font=`${Math.min(13,8*l)}px system-ui, sans-serif`;for(let c of e.plan.titles){let d=this.world.pools.get(e.pools[c.pool])?.sets?.[c.set];d&&i.fillText(R(d.name).slice(0,24),t+c.x*l,s+(c.y+c.h/2)*l,c.w*l)}}if(l>2.2)for(let c of e.plan.cells){let d=this.world.pools.get(e.pools[c.pool])?.devices[c.device];if(!d||c.frame)continue;let p=Math.min(13,Math.max(9,4*l)),m=t+c.x*l,u=s+(c.y+c.h)*l;i.font=`${p}px system-ui, sans-serif`;let f=[d.name,this.world.shapes[d.shape].product].map(g=>R(g).slice(0,60)).find(g=>i.measureText(g).width<=c.w*l-4);f&&(i.fillStyle=r.box,i.globalAlpha*=.85,i.fillRect(m+1,u-p-4,c.w*l-2,p+3),i.globalAlpha=this.isDim(e)?.3:1,i.fillStyle=r.text,i.fillText(f,m+2,u-p/2-2))}}cell(e,t,s,i,n,r,l){if(re(this.context,this.colours,e,t,s,i,n,r),l&&e!=="tainted"&&i>=8){let c=this.context,d=Math.min(i,n)*.35;c.fillStyle=this.colours.tainted,c.beginPath(),c.moveTo(t+i,s),c.lineTo(t+i-d,s),c.lineTo(t+i,s+d),c.fill()}}ring(e,t,s,i,n,r){this.context.strokeStyle=e,this.context.lineWidth=r,this.context.strokeRect(t-r/2,s-r/2,i+r,n+r)}isMarked(e){return this.marks.lit.has(e.key)||this.marks.selected===e.key||this.marks.focused===e.key}rings(e,t,s,i,n){let{marks:r,colours:l}=this;r.lit.has(e.key)&&this.ring(l.lit,t,s,i,n,2),r.selected===e.key&&this.ring(l.accent,t,s,i,n,2),r.focused===e.key&&this.ring(l.text,t-2,s-2,i+4,n+4,2)}deviceRings(e,t,s){let{marks:i,colours:n,viewport:r}=this;if(!(!i.changed.size&&!i.lit.size&&!i.selected.startsWith("device/")&&!i.focused.startsWith("device/")))for(let l of e.plan.cells){let c=this.world.pools.get(e.pools[l.pool]),d=c?.devices[l.device];if(!c||!d)continue;let p="device/"+C(c,d),m=[t+l.x*r.scale,s+l.y*r.scale,l.w*r.scale,l.h*r.scale];i.changed.has(p)&&this.ring(n.lit,...m,2.5),i.lit.has(p)&&this.ring(n.lit,...m,2),i.selected===p&&this.ring(n.accent,...m,2.5),i.focused===p&&this.ring(n.text,m[0]-2,m[1]-2,m[2]+4,m[3]+4,2)}}glow(){if(this.flashes.size===0)return;let e=performance.now(),{context:t,viewport:s}=this;for(let[i,n]of this.flashes)n<e&&this.flashes.delete(i);for(let i of this.layout.groups)for(let n of i.boxes)for(let r of n.plan.cells){let l=this.world.pools.get(n.pools[r.pool]),c=l?.devices[r.device],d=l&&c?this.flashes.get(C(l,c)):void 0;if(d===void 0)continue;t.globalAlpha=Math.min(1,(d-e)/1e3);let p=3;this.ring(this.colours.lit,(n.x+r.x-s.x)*s.scale-p,(n.y+r.y-s.y)*s.scale-p,r.w*s.scale+2*p,r.h*s.scale+2*p,3)}t.globalAlpha=1,this.draw()}},Ee=new WeakMap;function Je(a){let e=Ee.get(a);return e||(e=E.map(t=>a.devices.filter(s=>s.state===t).length),Ee.set(a,e)),e}function Xe(a,e){if(a.nodes.size!==e.nodes.size||a.pools.size!==e.pools.size)return!1;for(let[t,s]of e.nodes){let i=a.nodes.get(t);if(i!==s&&(!i||i.kind!==s.kind||JSON.stringify(i.labels)!==JSON.stringify(s.labels)))return!1}for(let[t,s]of e.pools){let i=a.pools.get(t);if(i!==s&&(!i||i.devices.length!==s.devices.length||i.nodes?.length!==s.nodes?.length))return!1}return!0}function Y(){let a=getComputedStyle(document.documentElement),e={};for(let t of[...E,"text","faint","box","edge","back","accent","lit","pale"])e[t]=a.getPropertyValue("--"+t).trim();return e}function re(a,e,t,s,i,n,r,l){let c=Math.min(n,r)<7;if(a.fillStyle=a.strokeStyle=e[t],a.lineWidth=Math.max(1,Math.min(2,n/10)),l){a.globalAlpha*=.22,t!=="free"&&a.fillRect(s,i,n,r),a.globalAlpha/=.22,a.strokeRect(s+.5,i+.5,n-1,r-1);return}if(c&&t!=="free"){a.fillRect(s,i,n,r);return}let d=(...m)=>{a.beginPath(),a.moveTo(m[0],m[1]);for(let u=2;u<m.length;u+=2)a.lineTo(m[u],m[u+1])},p=a.lineWidth/2;switch(t){case"used":a.fillRect(s,i,n,r);return;case"shared":d(s,i,s,i+r,s+n,i+r),a.closePath(),a.fill();break;case"blocked":d(s,i,s+n,i+r),a.stroke(),d(s+n,i,s,i+r),a.stroke();break;case"tainted":d(s,i+r*.45,s+n*.45,i),a.stroke(),d(s,i+r,s+n,i),a.stroke(),d(s+n*.55,i+r,s+n,i+r*.55),a.stroke();break;case"unusable":a.fillRect(s+n*.44,i+r*.18,n*.12,r*.38),a.fillRect(s+n*.44,i+r*.68,n*.12,r*.14);break;case"unreached":a.setLineDash([3,3]);break}a.strokeRect(s+p,i+p,n-2*p,r-2*p),a.setLineDash([])}var L={tab:"map",by:"namespace",group:"kind",find:"",select:""};function le(){let a=new URLSearchParams(location.hash.slice(1)),e={...L};for(let t of Object.keys(L))e[t]=a.get(t)??L[t];return["map","usage","whatif"].includes(e.tab)||(e.tab=L.tab),e}function ce(a){let e=new URLSearchParams;for(let s of Object.keys(L))a[s]!==L[s]&&e.set(s,a[s]);let t=e.toString();history.replaceState(null,"",location.protocol==="file:"?"#"+t:"/"+(t?"#"+t:""))}var Se=12,J=class{constructor(e,t,s){this.map=e;this.enter=t;this.moved=s;this.root=o("div",{role:"tree",tabindex:0,id:"tree",class:"tree","aria-label":"Cluster map",keydown:i=>this.key(i),focus:()=>this.update(),blur:()=>this.moved("")})}map;enter;moved;root;at={group:0,box:-1,cell:-1};get groups(){return this.map.layout.groups}get world(){return this.map.world}devices(e){return e.pools.flatMap(t=>{let s=this.world.pools.get(t);return s?s.devices.map(i=>[s,i]):[]})}go(e){this.groups.forEach((t,s)=>t.boxes.forEach((i,n)=>{if(i.key===e)this.at={group:s,box:n,cell:-1};else if(e.startsWith("device/")&&i.pools.some(r=>e.startsWith("device/"+r+"/"))){let r=this.devices(i).findIndex(([l,c])=>"device/"+C(l,c)===e);r>=0&&(this.at={group:s,box:n,cell:r})}})),this.update()}key(e){let t=this.at,s=this.groups[t.group],i=s?.boxes[t.box];if(!s)return;let n=t.cell>=0?this.devices(i).length:t.box>=0?s.boxes.length:this.groups.length,r=c=>{let d=Math.max(0,Math.min(n-1,c));t.cell>=0?t.cell=d:t.box>=0?t.box=d:t.group=d},l=t.cell>=0?t.cell:t.box>=0?t.box:t.group;switch(e.key){case"ArrowDown":r(l+1);break;case"ArrowUp":r(l-1);break;case"PageDown":r(l+10);break;case"PageUp":r(l-10);break;case"Home":r(0);break;case"End":r(n-1);break;case"ArrowRight":t.box<0?t.box=s.boxes.length?0:-1:t.cell<0&&this.devices(i).length&&(t.cell=0);break;case"ArrowLeft":t.cell>=0?t.cell=-1:t.box=-1;break;case"Enter":case" ":{let c=this.focused();c&&this.enter(c);break}case"+":case"=":this.map.zoom(1.3,this.map.canvas.clientWidth/2,this.map.canvas.clientHeight/2);break;case"-":this.map.zoom(1/1.3,this.map.canvas.clientWidth/2,this.map.canvas.clientHeight/2);break;case"0":this.map.fit();break;default:return}e.preventDefault(),this.update()}focused(){let e=this.groups[this.at.group]?.boxes[this.at.box];if(!e)return"";let t=this.devices(e)[this.at.cell];return t?"device/"+C(...t):e.key}update(){let e=this.at;e.group=Math.min(e.group,this.groups.length-1);let t=this.groups[e.group];if(!t){v(this.root,o("div",{role:"treeitem",id:"tree-0"},"There are no nodes."));return}e.box=Math.min(e.box,t.boxes.length-1);let s=[],i=(n,r,l,c,d,p)=>{for(let m=Math.max(0,(d<0?0:d)-Se);m<Math.min(r,(d<0?0:d)+Se+1);m++){let u=l<3&&m===d&&(l===1?e.box>=0:e.cell>=0);if(s.push(o("div",{role:"treeitem",id:`tree-${l}-${m}`,"aria-level":l,"aria-setsize":r,"aria-posinset":m+1,"aria-expanded":p?String(u):void 0,"aria-selected":String(m===n)},c(m))),m===d&&l===1&&e.box>=0&&i(e.cell<0?e.box:-1,t.boxes.length,2,f=>this.nodeText(t.boxes[f]),e.box,!0),m===d&&l===2&&e.cell>=0){let f=this.devices(t.boxes[e.box]);e.cell=Math.min(e.cell,f.length-1),i(e.cell,f.length,3,g=>this.deviceText(...f[g]),e.cell,!1)}}};if(i(e.box<0?e.group:-1,this.groups.length,1,n=>`${this.groups[n].title}, ${x(this.groups[n].boxes.length,this.groups[n].lane?"pool":"node")}`,e.group,!0),v(this.root,s),this.root.setAttribute("aria-activedescendant",e.cell>=0?`tree-3-${e.cell}`:e.box>=0?`tree-2-${e.box}`:`tree-1-${e.group}`),document.activeElement===this.root){let n=t.boxes[e.box];n&&this.map.reveal(n,e.cell>=0),this.moved(this.focused())}}nodeText(e){let t=e.node!==void 0?this.world.nodes.get(e.node):void 0,s=new Map;for(let[,n]of this.devices(e))s.set(k[n.state].name,(s.get(k[n.state].name)??0)+1);let i=[...s].map(([n,r])=>`${r} ${n}`).join(", ")||"no devices";return`${e.node!==void 0?"Node":"Pool"} ${e.title}${t?.cordoned?", cordoned":""}${this.map.marks.lit.has(e.key)?", lit up":""}: ${i}`}deviceText(e,t){let s="device/"+C(e,t),{lit:i,changed:n}=this.map.marks;return(n.has(s)?"Changed: ":"")+(i.has(s)?"Lit up: ":"")+`Device ${t.name}, ${this.world.shapes[t.shape].product}: ${k[t.state].name}`+(t.held?.length?`, by ${[...new Set(t.held.map(r=>r.claim))].slice(0,3).join(", ")}`:"")+(t.taints?.length?`, taint ${t.taints.join(", ")}`:"")}};var de={namespace:"namespace",workload:"workload",class:"device class",driver:"driver",node:"node"},pe=500,X=class{constructor(e,t,s,i){this.choose=e;this.ask=t;this.select=s;this.only=i;v(this.root,o("p",{class:"actions"},o("label",{for:"by"},"Count by"),this.by),o("p",{class:"help"},"A stranded device is held by nobody, and no claim could have it now: because of a taint, counters that siblings have used up, a cordoned node and the like. A device that several share counts in each of their rows."),o("ul",{class:"legend","aria-label":"Signs"},["held","free","stranded"].map(n=>o("li",{},o("span",{class:"sample "+n})," "+n))),this.body)}choose;ask;select;only;root=o("section",{class:"usage","aria-label":"Usage",tabindex:0});by=o("select",{id:"by",change:()=>this.choose(this.by.value)});body=o("div",{"aria-live":"polite"});asked="";show(e,t,s){if(this.options(e,t),this.asked===t+" "+s)return;let i=this.asked=t+" "+s;this.ask(t).then(n=>{this.asked===i&&this.report(n)},n=>{this.asked===i&&(this.asked="",v(this.body,o("p",{class:"bad"},n.message)))})}options(e,t){let s=this.only;if(!s){let i=new Set(e.shapes.flatMap(n=>Object.keys(n.attributes??{})));s=[...Object.keys(de),...[...i].sort().map(n=>"attribute="+n)]}s.includes(t)||(s=[...s,t]),[...this.by.options].map(i=>i.value).join(`
`)!==s.join(`
`)&&v(this.by,s.map(i=>o("option",{value:i},de[i]??i.replace("attribute=","attribute ")))),this.by.value=t}report(e){let{by:t,total:s}=e,i=Math.max(1,...e.items.map(d=>d.devices)),n=de[t]??t.replace("attribute=",""),r=e.items.slice(0,pe),l=(d,p,m)=>o("tr",{},o("th",{scope:"row"},d,Fe(p,m),p.stranded?o("div",{class:"faint"},"stranded: ",Object.entries(p.causes??{}).map(([u,f])=>`${u} (${f.toLocaleString("en")})`).join(", ")):null,p.shares?o("div",{class:"faint"},`${p.shares.toLocaleString("en")} of the held with shares left`):null),[p.devices,p.held,p.free,p.stranded].map(u=>o("td",{},u.toLocaleString("en")))),c=d=>d===""?o("span",{class:"faint"},t==="namespace"||t==="workload"?"nobody":"none"):t==="node"&&!d.startsWith("(")?o("button",{type:"button",class:"link",click:()=>this.select("node/"+d)},h(d)):h(d);v(this.body,o("table",{},o("thead",{},o("tr",{},[n,"Devices","Held","Free","Stranded"].map(d=>o("th",{scope:"col"},d)))),o("tbody",{},l("All",s,s.devices),r.map(d=>l(c(d.name),d,i)))),e.items.length>pe?o("p",{},`and ${e.items.length-pe} more: dray usage --by ${t} has them all`):null)}};function Fe(a,e){let t=["held","free","stranded"].filter(s=>a[s]>0).map(s=>{let i=o("span",{class:s});return i.style.width=`${100*a[s]/Math.max(1,e)}%`,i});return o("div",{class:"bar","aria-hidden":"true"},t)}var S=a=>`wait/${a.kind}/${a.namespace}/${a.name}`;function _e(a,e){let t=new Map;for(let s of a.waiting){if(e&&!`${s.namespace}/${s.name} ${s.group??""} ${s.reason??""}`.toLowerCase().includes(e))continue;let i=s.group?"group "+s.group:s.answer>=0?"answer "+s.answer:S(s),n=t.get(i)??{title:s.group?`Pod group ${s.group}`:`${s.namespace}/${s.name}`,members:[]};n.members.push(s),t.set(i,n)}return[...t.values()].sort((s,i)=>Number(s.members.every(n=>n.answer<0))-Number(i.members.every(n=>n.answer<0)))}var F=300;function We(a,e,t,s,i){let n=_e(e,s),r=e.waiting.filter(c=>c.answer>=0).length,l=c=>o("button",{type:"button",class:"wait","data-key":S(c),"aria-pressed":String(S(c)===t),click:()=>i(S(c))},o("strong",{},c.kind==="Pod"?null:"claim ",h(`${c.namespace}/${c.name}`)),o("span",{class:c.answer>=0?"reason":"reason good"},c.answer>=0?h(c.reason??""):["can be placed on ",h(c.node??"")]));T(a,o("h2",{},"What waits"),o("p",{class:"faint"},e.waiting.length===0?"Nothing is pending that asks for devices.":`${e.waiting.length===1?"1 pod or claim":e.waiting.length+" pods and claims"}: ${r} without a place, ${e.waiting.length-r} can be placed`),o("ul",{class:"plain"},n.slice(0,F).map(c=>{let[d,...p]=c.members;if(p.length===0)return o("li",{},l(d));let m=c.title.startsWith("Pod group");return o("li",{},m?o("h3",{},h(c.title),`: ${x(c.members.length,"pod")}`):null,l(d),o("details",{"data-key":c.title,open:p.some(u=>S(u)===t)},o("summary",{},`${x(p.length,"more pod")}${m?" of the group":", for the same reasons"}`),p.slice(0,F).map(l)))})),n.length>F?o("p",{},`and ${n.length-F} more`):null)}var Te=`# One H100 is best. Two A100s or four L4s will do. The driver is told which it is by
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
`;var Pe=`# Two pods that start together or not at all. Each would rather have a whole GPU than a half.
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
`;var $e=`# Each replica wants a GPU and an RDMA NIC behind the same PCIe root.
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
`;var Ne=`# Claims by themselves: no pod uses them yet. They are allocated in this order.
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
`;var Re=`apiVersion: resource.k8s.io/v1
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
`;var Ae=`# A pod that takes any GPU, and one that wants a large one.
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
`;var Le=`# Two pods share one claim: the second may run on any node that reaches its devices. A
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
`;var at={taint:"Taint devices",cordon:"Cordon a node",drain:"Drain a node",add:"Add nodes like one",remove:"Remove a pod",yaml:"Add pods or claims"},De={"a GPU, any or a large one":Ae,"a GPU and a NIC of one PCIe root":$e,"partitions of a GPU":Ne,"a share of a NIC's bandwidth":Re,"the best GPU, or a second or third choice":Te,"a claim that several pods share":Le,"pods that start together":Pe},_=class{constructor(e,t,s){this.post=e;this.world=t;this.show=s;v(this.root,o("h2",{},"What if"),o("p",{class:"faint"},"Tried on a copy of what is shown. Nothing is written to the cluster."),o("form",{submit:i=>{i.preventDefault(),this.ask()}},o("label",{for:"ask-kind"},"Change"),this.kind,this.form,o("p",{class:"actions"},o("button",{type:"submit",class:"primary"},"Try"),y("Back to what is",()=>this.clear()))),this.answer),this.fields()}post;world;show;root=o("section",{class:"whatif","aria-label":"What if"});kind=o("select",{id:"ask-kind",change:()=>this.fields()},Object.entries(at).map(([e,t])=>o("option",{value:e},t)));form=o("div");answer=o("div",{role:"status"});inputs={};input(e,t,s="",i){let n="ask-"+e,r=o("input",{id:n,value:s,list:i?n+"-list":void 0,autocomplete:"off",spellcheck:"false"});return this.inputs[e]=r,[o("label",{for:n},t),r,i?o("datalist",{id:n+"-list"},i.slice(0,1e3).map(l=>o("option",{value:l}))):o("span")]}fields(){this.inputs={};let e=[...this.world().nodes.keys()];switch(this.kind.value){case"taint":v(this.form,this.input("taint","Taint, KEY[=VALUE]:EFFECT","example.com/broken:NoSchedule"),this.input("node","Node (empty for any)","",e),this.input("driver","Driver"),this.input("pool","Pool"),this.input("device","Device"));break;case"add":v(this.form,this.input("node","Node that they are like","",e),this.input("count","How many","1")),this.inputs.count.setAttribute("inputmode","numeric");break;case"remove":v(this.form,this.input("pod","Pod, NAMESPACE/NAME","",[...new Set([...this.world().claims.values()].flatMap(t=>(t.pods??[]).map(s=>`${t.namespace}/${s}`)))]));break;case"yaml":{let t=o("textarea",{id:"ask-yaml",rows:16,spellcheck:"false"});this.inputs.yaml=t;let s=o("select",{id:"ask-template",change:()=>{t.value=De[s.value]??""}},o("option",{value:""},"choose …"),Object.keys(De).map(i=>o("option",{},i)));v(this.form,o("label",{for:"ask-template"},"Begin with"),s,o("label",{for:"ask-yaml"},"Manifests (YAML)"),t);break}default:v(this.form,this.input("node","Node","",e))}}value=e=>this.inputs[e]?.value.trim()??"";change(){switch(this.kind.value){case"taint":return{taint:{taint:this.value("taint"),node:this.value("node"),driver:this.value("driver"),pool:this.value("pool"),device:this.value("device")}};case"add":return{add:{[this.value("node")]:Math.trunc(Number(this.value("count")))||0}};case"remove":return{remove:[this.value("pod")]};case"yaml":return{yaml:this.inputs.yaml.value};case"drain":return{drain:[this.value("node")]};default:return{cordon:[this.value("node")]}}}start(e,t){this.kind.value=e,this.fields();let s=(i,n)=>{this.inputs[i]&&(this.inputs[i].value=n)};if(t.startsWith("device/")){let[i,...n]=t.slice(7).split("/");s("driver",i),s("pool",n.slice(0,-1).join("/")),s("device",n.at(-1)??"")}else e==="remove"?s("pod",t):s("node",t.replace(/^node\//,""));this.kind.focus()}clear(){this.show(void 0),v(this.answer)}async ask(){v(this.answer,o("p",{class:"faint"},"Trying …"));try{let e=await this.post(this.change()),t=this.show(e);t&&this.report(e,t.before,t.after)}catch(e){this.show(void 0),v(this.answer,o("h3",{},"That is not possible"),o("ul",{class:"bad"},e.message.split(`
`).map(t=>o("li",{},h(t)))))}}report(e,t,s){let i=j(t),n=j(s),r=c=>c.waiting.filter(d=>d.answer>=0).length,l=(c,d,p)=>o("tr",{class:d===p?"":"differs"},o("th",{scope:"row"},c),o("td",{},String(d)),o("td",{},String(p)));v(this.answer,o("h3",{},"Before and after"),o("table",{},o("thead",{},o("tr",{},o("td"),o("th",{scope:"col"},"Before"),o("th",{scope:"col"},"After"))),o("tbody",{},l("nodes",t.nodes.size,s.nodes.size),E.filter(c=>i[c]||n[c]).map(c=>l(k[c].name,i[c],n[c])),l("waiting without a place",r(t),r(s)),l("waiting that can be placed",t.waiting.length-r(t),s.waiting.length-r(s)))),o("h3",{},"In a terminal"),e.commands.map(c=>o("pre",{tabindex:0},c)),e.manifests?o("details",{},o("summary",{},"with this on standard input"),o("pre",{tabindex:0},e.manifests)):null)}};var Z=class{constructor(e,t){this.world=e;this.kept=t;this.usage=new X(i=>this.set({by:i}),i=>this.count(i),i=>{this.state.tab="map",this.select(i)},t&&Object.keys(t.usage)),this.build(),this.map=new H(this.canvas,e,this.state.group),this.map.viewport=this.viewport,this.tree=new J(this.map,i=>this.select(i),i=>this.focused(i)),this.maps.firstElementChild.append(this.tree.root),this.pointer(this.map,this.canvas),this.map.fit();let s=this.size();new ResizeObserver(()=>{!this.canvas.clientWidth||this.size()===s||(s=this.size(),this.map.resized(),this.beforeMap?.show(this.beforeMap.world,this.state.group,this.map.layout))}).observe(this.canvas),addEventListener("hashchange",()=>{this.state=le(),this.update()}),this.update(),t||this.follow()}world;kept;state=le();history=new K;past;outcome;explained;viewport={x:0,y:0,scale:1};canvas=o("canvas",{"aria-hidden":"true"});before=o("canvas",{"aria-hidden":"true"});map;beforeMap;tree;status=o("p",{class:"status",role:"status"});notes=o("details",{class:"notes",hidden:!0});legend=o("ul",{class:"legend","aria-label":"States of devices"});waits=o("section",{class:"waits","aria-label":"What waits"});panel=o("section",{class:"panel","aria-label":"Details",hidden:!0,keydown:e=>{e.key==="Escape"&&this.close()}});tip=o("div",{class:"tip",hidden:!0,"aria-hidden":"true"});maps=o("div",{class:"maps"});scrub=o("div",{class:"scrub",hidden:!0});group=o("select",{id:"group",change:()=>this.set({group:this.group.value})});grouping=o("div",{class:"actions"},o("label",{for:"group"},"Group by"),this.group);find=o("input",{id:"find",type:"search",placeholder:"node, device, pod, claim",input:()=>this.set({find:this.find.value})});usage;whatIf;tabs=[];size(){return`${this.canvas.clientWidth} ${this.canvas.clientHeight}`}build(){let e=(i,n)=>y(n,()=>this.set({tab:i}),{"data-tab":i});this.tabs=[e("map","Map"),e("usage","Usage"),...this.kept?[]:[e("whatif","What if")]],this.kept||(this.whatIf=new _(i=>this.post(i),()=>this.world,i=>this.tried(i)));let t=o("input",{type:"range",id:"scrub",min:0,max:0,value:0,input:()=>this.scrubTo(Number(t.value))});v(this.scrub,o("label",{for:"scrub"},"Last 15 minutes"),t,o("output",{id:"scrub-time"},"now"),y("Now",()=>this.scrubTo(this.history.length)));let s=i=>()=>this.map.zoom(i,this.canvas.clientWidth/2,this.canvas.clientHeight/2);v(this.maps,o("figure",{class:"main"},this.canvas),o("div",{class:"zoom"},y("+",s(1.4),{"aria-label":"Zoom in"}),y("−",s(1/1.4),{"aria-label":"Zoom out"}),y("Fit",()=>this.map.fit(),{"aria-label":"Fit all"})),this.tip),v(document.getElementById("app"),o("header",{},o("h1",{},"Dray"),o("p",{class:"source"},h(this.world.source)),o("nav",{"aria-label":"Views"},this.tabs),o("div",{class:"tools"},this.grouping,o("label",{for:"find"},"Find"),this.find),this.status),o("main",{},o("div",{class:"left"},this.waits,this.whatIf?.root),o("div",{class:"centre"},o("p",{class:"help for-map"},"Each box is a node, each cell a device. Scroll to zoom, drag to move, click for details; with the keyboard, focus the map and use the arrow keys."),this.legend,this.notes,this.maps,this.usage.root,this.scrub),this.panel))}set(e){Object.assign(this.state,e),ce(this.state),this.update()}get shown(){return this.outcome?.after??(this.past===void 0?this.world:this.history.at(this.past)?.world??this.world)}update(){ce(this.state);let e=this.shown,{state:t}=this;this.tabs.forEach(s=>s.setAttribute("aria-current",s.dataset.tab===t.tab?"page":"false")),this.waits.hidden=t.tab==="whatif",this.whatIf&&(this.whatIf.root.hidden=t.tab!=="whatif"),this.showUsage(e),this.options(e),this.find.value!==t.find&&(this.find.value=t.find),this.map.show(e,t.group),this.beforeMap?.show(this.outcome?.before??this.world,t.group,this.map.layout),this.showLegend(e),this.notes.hidden=e.notes.length===0,e.notes.length&&v(this.notes,o("summary",{},x(e.notes.length,"note")),o("ul",{},e.notes.map(s=>o("li",{},h(s))))),We(this.waits,e,t.select,t.find.toLowerCase(),s=>this.select(s)),this.showDetails(e),this.mark(e),this.tree.update()}showUsage(e){let t=this.state.tab==="usage";this.usage.root.hidden=!t;for(let s of[this.maps,this.legend,this.grouping,document.querySelector(".for-map")])s.hidden=t;if(this.scrub.hidden=t||this.history.length===0,!!t){if(this.past!==void 0){this.scrubTo(this.history.length);return}this.usage.show(e,this.state.by,this.version(e))}}version(e){return this.outcome&&e===this.outcome.after?`whatif=${this.outcome.number}`:`revision=${e.revision}`}async count(e){if(this.kept){if(!Object.hasOwn(this.kept.usage,e))throw new Error("The file does not have this: dray usage --by "+e);return this.kept.usage[e]}let t=await fetch(`api/usage?${this.version(this.shown)}&by=${encodeURIComponent(e)}`);if(!t.ok)throw new Error((await t.text()).trim());return await t.json()}options(e){let t=new Map;for(let n of e.nodes.values())for(let[r,l]of Object.entries(n.labels??{}))t.has(r)||t.set(r,new Set),t.get(r).add(l);let i=["kind","pool",...[...t].filter(([,n])=>n.size>1&&n.size<=Math.max(2,e.nodes.size/2)).map(([n])=>n).sort().map(n=>"label:"+n)];this.state.group.startsWith("label:")&&!i.includes(this.state.group)&&i.push(this.state.group),[...this.group.options].map(n=>n.value).join(`
`)!==i.join(`
`)&&v(this.group,i.map(n=>o("option",{value:n},n==="kind"?"kind of node":n==="pool"?"pool":"label "+n.slice(6)))),this.group.value=this.state.group}showLegend(e){let t=j(e),s=E.reduce((n,r)=>n+t[r],0),i=Y();v(this.legend,o("li",{},o("strong",{},x(e.nodes.size,"node")),", ",o("strong",{},x(s,"device"))),E.map(n=>{let r=o("canvas",{width:32,height:32,"aria-hidden":"true"}),l=r.getContext("2d");return l.scale(2,2),re(l,i,n,1,1,14,14,!1),o("li",{title:k[n].help,class:t[n]?"":"none"},r,` ${k[n].name} `,o("strong",{},t[n].toLocaleString("en")))}))}showDetails(e){let t=this.state.select,s=this.actions(e),i;if(t.startsWith("device/"))i=fe(e,t.slice(7),s);else if(t.startsWith("node/"))i=ve(e,t.slice(5),s);else if(t.startsWith("pool/"))i=be(e,t.slice(5),s);else if(t.startsWith("wait/")){let r=e.waiting.find(l=>S(l)===t);i=r&&ye(r,s)}if(t&&!i&&(i=[o("h2",{},"Not there"),o("p",{},h(t)," is not in what is shown.")]),this.panel.hidden=!i,!i)return;let n=this.panel.dataset.key===t;this.panel.dataset.key=t,(n?T:v)(this.panel,y("×",()=>this.close(),{class:"close","aria-label":"Close details"}),i)}actions(e){return{select:t=>this.select(t),ask:this.whatIf&&((t,s)=>{this.set({tab:"whatif"}),this.whatIf.start(t,s)}),explain:async t=>{let s=await this.explain(e,t);return this.explained={key:S(t),answer:s},s},explained:t=>this.explained?.key===S(t)?this.explained.answer:void 0}}async explain(e,t){if(this.kept){let i=this.kept.answers[t.answer];if(!i)throw new Error("The file does not have this explanation. "+(t.reason??""));return i}let s=await fetch(`api/explanation?${this.version(e)}&answer=${t.answer}`);if(!s.ok)throw new Error(`${t.reason??""} (${(await s.text()).trim()}: the whole explanation is that of now)`);return await s.json()}mark(e){let t=new Set,s=e.waiting.find(r=>S(r)===this.state.select);s?.node&&s.answer<0&&t.add("node/"+s.node);for(let r of s?.devices??[])t.add(`device/${M({driver:r.driver,name:r.pool})}/${r.device}`);for(let r of s?.nearest??[])t.add("node/"+r);if(this.state.select.startsWith("pool/"))for(let r of e.pools.get(this.state.select.slice(5))?.nodes??[])t.add("node/"+r);let i=new Set(this.outcome?[...q(this.outcome.before,this.outcome.after)].map(r=>"device/"+r):[]),n=this.state.find?this.matching(e,this.state.find.toLowerCase()):void 0;for(let r of[this.map,this.beforeMap])r&&(r.marks={...r.marks,selected:this.state.select,lit:t,changed:i,matches:n});this.map.draw(),this.beforeMap?.draw()}matching(e,t){let s=new Set,i=n=>n.toLowerCase().includes(t);for(let n of this.map.layout.boxes.values())(i(n.title)||n.pools.some(l=>e.pools.get(l)?.devices.some(d=>i(d.name)||i(e.shapes[d.shape].product)||d.held?.some(p=>i(p.claim)||e.claims.get(p.claim)?.pods?.some(i)))))&&s.add(n.key);return s}select(e){let t=document.activeElement?.matches(":focus-visible");this.set({select:e});let s=this.shown,i=e.startsWith("device/")?G(s,e.slice(7)):void 0,n=i?this.boxOf(i[0]):this.map.layout.boxes.get(e);n&&(this.map.reveal(n,i!==void 0),this.tree.go(e));let r=s.waiting.find(c=>S(c)===e),l=r&&this.map.layout.boxes.get("node/"+(r.node&&r.answer<0?r.node:r.nearest?.[0]??""));l&&this.map.reveal(l,!1),e&&matchMedia("(max-width: 800px)").matches&&this.panel.scrollIntoView(),e&&t&&this.panel.querySelector("h2")?.focus()}boxOf(e){return[...this.map.layout.boxes.values()].find(t=>t.pools.includes(M(e)))}close(){let e=this.state.select;this.set({select:""});let t=this.waits.querySelector(`[data-key="${CSS.escape(e)}"]`);(t?.checkVisibility()?t:this.tree.root).focus()}focused(e){this.map.marks.focused=e,this.map.draw();let t=e.startsWith("device/")?G(this.shown,e.slice(7)):void 0,s=t?this.boxOf(t[0]):this.map.layout.boxes.get(e),i=s&&this.map.corner(s,t&&C(...t)),n=this.canvas.parentElement.offsetLeft+this.canvas.offsetLeft;this.showTip(this.shown,s,t?.[0],t?.[1],(i?.x??0)+n,(i?.y??0)+this.canvas.offsetTop)}pointer(e,t){let s=new Map,i=0,n=()=>{this.map.draw(),this.beforeMap?.draw()};t.addEventListener("pointerdown",l=>{t.setPointerCapture(l.pointerId),s.set(l.pointerId,{x:l.offsetX,y:l.offsetY}),i=0}),t.addEventListener("pointermove",l=>{let c=s.get(l.pointerId);if(!c){this.hover(e,l);return}let d=l.offsetX-c.x,p=l.offsetY-c.y;i+=Math.abs(d)+Math.abs(p);let m=[...s].find(([u])=>u!==l.pointerId)?.[1];m?e.zoom(Math.hypot(l.offsetX-m.x,l.offsetY-m.y)/Math.max(1,Math.hypot(c.x-m.x,c.y-m.y)),m.x,m.y):e.pan(d,p),s.set(l.pointerId,{x:l.offsetX,y:l.offsetY}),n()});let r=l=>{if(!s.delete(l.pointerId)||i>5||l.type!=="pointerup")return;this.tip.hidden=!0;let{box:c,pool:d,device:p}=e.hit(l.offsetX,l.offsetY);this.select(d&&p?"device/"+C(d,p):c?.key??"")};t.addEventListener("pointerup",r),t.addEventListener("pointercancel",r),t.addEventListener("pointerleave",()=>{this.tip.hidden=!0}),t.addEventListener("wheel",l=>{l.preventDefault(),e.zoom(Math.exp(-l.deltaY*(l.deltaMode?.05:.0018)),l.offsetX,l.offsetY),n()},{passive:!1})}hover(e,t){let{box:s,pool:i,device:n}=e.hit(t.offsetX,t.offsetY),r=this.maps.getBoundingClientRect();this.showTip(e.world,s,i,n,t.clientX-r.left,t.clientY-r.top)}showTip(e,t,s,i,n,r){if(this.tip.hidden=!t,!t)return;v(this.tip,ge(e,t.title,t.node,s,i));let{clientWidth:l,clientHeight:c}=this.maps,{offsetWidth:d,offsetHeight:p}=this.tip;this.tip.style.left=Math.max(0,n+14+d+4>l?n-14-d:n+14)+"px",this.tip.style.top=Math.max(0,Math.min(r+14,c-p-4))+"px"}follow(){ke(()=>this.world.revision,{delta:e=>{let t=Ce(this.world,e);t?this.next(t,JSON.stringify(e).length):this.whole()},whole:()=>{this.whole()},lost:(e,t)=>{this.status.classList.toggle("bad",e!==""),v(this.status,e||(t?"live":"as read once"))}})}async whole(){let e=await fetch("api/picture");if(!e.ok){v(this.status,(await e.text()).trim());return}let t=await e.text();this.next(V(JSON.parse(t)),t.length)}next(e,t){let s=this.world;this.world=e,this.history.add(s,e,t),this.past!==void 0&&(this.past=Math.min(this.past,this.history.length-1)),this.showScrub(),!(this.past!==void 0||this.outcome)&&(this.update(),this.map.flash(q(s,e)))}showScrub(){this.scrub.hidden=this.state.tab==="usage"||this.history.length===0;let e=this.scrub.querySelector("input"),t=this.past??this.history.length,s=this.history.at(t);e.max=String(this.history.length),e.value=String(t);let i=this.past===void 0||!s?"now":new Date(s.time).toLocaleTimeString();this.scrub.querySelector("output").textContent=i,e.setAttribute("aria-valuetext",i)}scrubTo(e){let t=this.shown;this.past=e>=this.history.length?void 0:e,this.outcome=void 0,this.showScrub(),this.update(),this.map.flash(q(t,this.shown))}async post(e){let t=await fetch("api/whatif",{method:"POST",headers:{"Content-Type":"application/json"},body:JSON.stringify(e)});if(t.status===422)throw new Error((await t.json()).errors.join(`
`));if(!t.ok)throw new Error((await t.text()).trim());return await t.json()}tried(e){this.past=void 0;let t=e&&(e.picture?V(e.picture):e.delta.from===this.world.revision?z(this.world,e.delta):void 0);if(e&&!t)throw new Error("The cluster has changed in the meantime: try again.");this.outcome=t&&{number:e.number,before:this.world,after:t};let s=this.maps.querySelector("figure.before");return t?s||(this.maps.prepend(o("figure",{class:"before"},o("figcaption",{},"Before"),this.before)),this.maps.querySelector("figure.main").prepend(o("figcaption",{},"After")),this.beforeMap=new H(this.before,this.world,this.state.group),this.beforeMap.viewport=this.viewport,this.pointer(this.beforeMap,this.before)):(s?.remove(),this.beforeMap=void 0,this.maps.querySelector("figcaption")?.remove()),this.update(),this.map.resized(),this.beforeMap?.show(this.world,this.state.group,this.map.layout),t&&{before:this.world,after:t}}};async function ot(){let a=document.getElementById("kept");if(a){let t=JSON.parse(a.textContent??"");new Z(V(t.picture),t);return}let e=await fetch("api/picture");if(!e.ok)throw new Error((await e.text()).trim());new Z(V(await e.json()),void 0)}ot().catch(a=>v(document.getElementById("app"),o("p",{class:"bad",role:"alert"},a.message)));
