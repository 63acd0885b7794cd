package logbench
import ("testing";"os";"time";"context";"fmt";"runtime")
func TestExp(t *testing.T){
 for _,p:=range []int{2,3,4}{
 runtime.GOMAXPROCS(p)
 for _,c:=range []struct{n,size int}{{1,1024},{256,1024},{2000,1024},{64,256<<10}}{
  dir,_:=os.MkdirTemp(".","exp")
  b:=newBareLog(dir,128<<20)
  bufs:=make([][]byte,c.n)
  for i:=range bufs{bufs[i]=make([]byte,c.size)}
  r,err:=load{c.n,2*time.Second}.run(context.Background(),func(w int)error{return b.append(bufs[w])})
  fmt.Println(p,c.n,c.size,r,r*float64(c.size)/1e6,err)
  b.close(); os.RemoveAll(dir)
  time.Sleep(300*time.Millisecond)
 }}
}
